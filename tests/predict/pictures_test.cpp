// The module that draws pictures for people; heat maps: explanations_test.cpp, brightness:
// image_quality_test.cpp.
#include "predict/pictures.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <algorithm>

namespace kiln {
namespace {

Picture picture(int height, int width, std::uint8_t value) {
  return {height, width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(3 * height) * width, value)};
}

TEST(Pictures, AreShrunkByAreaAndNeverEnlarged) {
  const PicturesModule& module = require_pictures_module();
  Picture stripes = picture(300, 512, 0);
  for (std::size_t i = 0; i < stripes.pixels.size(); i += 6)
    std::fill_n(&stripes.pixels[i], 3, 200);  // every other column
  const Picture small = module.shrunk(stripes, 256);
  EXPECT_EQ(image_of(small).size, (ImageSize{150, 256}));
  EXPECT_EQ(small.pixels, std::vector<std::uint8_t>(small.pixels.size(), 100));
  EXPECT_EQ(module.shrunk(stripes, 512).pixels, stripes.pixels);
  EXPECT_EQ(module.shrunk(picture(1, 1000, 7), 100).height, 1);
}

TEST(Pictures, OfASheetAreInAGridAboveTheirCaptions) {
  const PicturesModule& module = require_pictures_module();
  const auto sheet = [&](const std::string& caption, int columns) {
    return module.contact_sheet(
        {{picture(200, 150, 10), caption}, {picture(64, 64, 20), "b"}, {picture(32, 32, 30), "c"}},
        columns);
  };
  const Picture two = sheet("one", 2), three = sheet("one", 3);
  EXPECT_EQ(two.height, 2 * three.height);
  EXPECT_EQ(2 * three.width, 3 * two.width);
  EXPECT_EQ(sheet("one", 9).pixels, three.pixels);
  // Enlarged; letters have all shades.
  EXPECT_NEAR(std::ranges::count(three.pixels, 20), 3 * 128 * 128, 100);
  EXPECT_NEAR(std::ranges::count(three.pixels, 30), 3 * 160 * 160, 100);
  EXPECT_EQ(sheet("日\n", 3).pixels, sheet("??", 3).pixels);  // OpenCV's letters are ASCII
  EXPECT_NE(sheet("two", 3).pixels, three.pixels);
  EXPECT_EQ(sheet(std::string(100, 'x'), 3).pixels, sheet(std::string(900, 'x'), 3).pixels);
}

// The gradient of a step of training, and singular values, which LibTorch has from MKL.
std::pair<at::Tensor, at::Tensor> step(const at::Tensor& values) {
  at::Tensor weight = values.to(at::kFloat).clone().set_requires_grad(true);
  weight.mm(values.to(at::kFloat)).tanh().square().sum().backward();
  return {weight.grad().clone(), at::linalg_svdvals(values)};
}

TEST(Pictures, LapackOfTheModuleIsItsOwnAndChangesNothingOfLibTorch) {
  at::manual_seed(1);
  const at::Tensor values = at::randn({96, 96}, at::kDouble);
  const auto [gradient, singular] = step(values);
  const std::vector<double> found = require_pictures_module().singular_values(
      {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()}, 96, 96);
  const auto [gradient_after, singular_after] = step(values);
  EXPECT_TRUE(gradient.equal(gradient_after));
  EXPECT_TRUE(singular.equal(singular_after));
  const at::Tensor of_module =
      at::from_blob(const_cast<double*>(found.data()), {96}, at::kDouble).clone();
  EXPECT_TRUE(of_module.allclose(singular));
  EXPECT_FALSE(of_module.equal(singular));  // last bits: the module did not call MKL
}

}  // namespace
}  // namespace kiln
