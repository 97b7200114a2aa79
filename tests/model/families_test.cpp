// What the families beside the designer's have: drops, tokens, patches, layers before the last.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/catalogue.h"
#include "model/image_model.h"

namespace kiln {
namespace {

std::unique_ptr<ImageModel> model_of(const std::string& name) {
  at::manual_seed(3);
  auto model = make_image_model({.model_name = name, .num_classes = 4});
  model->prepare(at::kCPU);
  return model;
}

at::Tensor images(int count, int side) {
  at::manual_seed(4);
  return at::randn({count, 3, side, side}).contiguous(at::MemoryFormat::ChannelsLast);
}

// A network with LayerNorm, where no image depends on another.
TEST(Drops, AreThoseOfTheImagesKeyWhateverTheBatch) {
  const auto model = model_of("convnext_tiny");
  for (const NamedTensor& item : model->named_parameters())
    if (item.name.ends_with("layer_scale")) {
      const at::NoGradGuard no_grad;
      item.tensor.fill_(0.5);
    }
  model->train(true);
  const at::NoGradGuard no_grad;
  const at::Tensor x = images(8, 32);
  const std::vector<std::uint64_t> keys{11, 12, 13, 14, 15, 16, 17, 18};
  model->key_images(keys);
  const at::Tensor all = model->forward(x);
  EXPECT_TRUE(at::equal(all, model->forward(x)));
  std::vector<at::Tensor> parts;
  for (const std::size_t first : {0U, 4U}) {
    model->key_images({keys.begin() + static_cast<std::ptrdiff_t>(first),
                       keys.begin() + static_cast<std::ptrdiff_t>(first) + 4});
    parts.push_back(model->forward(x.narrow(0, static_cast<std::int64_t>(first), 4)));
  }
  EXPECT_TRUE(at::allclose(all, at::cat(parts), 1e-4, 1e-5));
  model->key_images({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_FALSE(at::allclose(all, model->forward(x), 1e-2, 1e-3)) << "nothing was dropped";
  model->train(false);
  const at::Tensor whole = model->forward(x);
  model->key_images(keys);
  EXPECT_TRUE(at::equal(whole, model->forward(x)));
}

TEST(Drops, AreNotThoseOfAFrozenBackbone) {
  for (const char* name : {"mobilenet_v3_large", "efficientnet_b0"}) {
    const auto model = model_of(name);
    model->freeze(Freeze::kBackbone);
    const at::NoGradGuard no_grad;
    const at::Tensor x = images(2, 32);
    model->train(true);
    model->key_images({1, 2});
    const at::Tensor features = model->pooled_features(x);
    model->key_images({3, 4});
    EXPECT_TRUE(at::equal(features, model->pooled_features(x))) << name;
  }
}

TEST(Fusing, KeepsTheLogits) {
  for (const char* name :
       {"mobilenet_v3_large", "efficientnet_v2_s", "convnext_tiny", "vit_s_16"}) {
    const auto model = model_of(name);
    const at::Tensor x = images(3, 64);
    model->train(false);
    const c10::InferenceMode inference;
    const at::Tensor plain = model->forward(x);
    model->fuse();
    const at::Tensor fused = model->forward(x);
    EXPECT_TRUE(at::allclose(plain, fused, 1e-3, 1e-4 * plain.abs().max().item<double>())) << name;
  }
}

TEST(Patches, MustDivideTheImage) {
  const KnownNetwork& network = known_network("vit_small_patch14_dinov2");
  EXPECT_EQ(network.name, "vit_s_14");
  EXPECT_EQ(network.final_map_side(224), 16);
  EXPECT_EQ(network.size_fault(224, 70), "");
  EXPECT_NE(network.size_fault(224, 64).find("14 pixels"), std::string::npos);
  EXPECT_NE(known_network("convnext_tiny").size_fault(31, 64).find("too small"), std::string::npos);
}

TEST(Patches, GiveMapsOfTheirGrid) {
  const auto model = model_of("vit_s_16");
  model->train(false);
  const at::Tensor x = images(2, 64).narrow(3, 0, 32);
  const at::Tensor maps = model->class_maps(x, {1, 3});
  EXPECT_EQ(maps.sizes(), (std::vector<std::int64_t>{2, 4, 2}));
  EXPECT_GE(maps.min().item<float>(), 0);
  EXPECT_LE(maps.max().item<float>(), 1);
  EXPECT_GT(maps.max().item<float>(), 0.99);
}

}  // namespace
}  // namespace kiln
