#include "data/normalize.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

TEST(Normalize, IsTheFormulaForEveryByteAndAnyLength) {
  const PixelScaling scaling{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  for (const std::size_t pixels : {0U, 1U, 15U, 16U, 17U, 768U}) {
    std::vector<std::uint8_t> rgb(pixels * 3);
    for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<std::uint8_t>(i / 3 + i % 3);
    std::vector<float> out(rgb.size() + 1, 77.0F);
    normalize_pixels(rgb.data(), pixels, scaling, out.data());
    for (std::size_t i = 0; i < rgb.size(); ++i)
      EXPECT_NEAR(out[i], (rgb[i] / 255.0 - scaling.mean[i % 3]) / scaling.std[i % 3], 5e-7);
    EXPECT_EQ(out.back(), 77.0F);
  }
}

}  // namespace
}  // namespace kiln
