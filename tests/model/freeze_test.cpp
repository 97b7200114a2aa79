// What is frozen stays as it is, and takes no gradient.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "model/image_model.h"

namespace kiln {
namespace {

std::unique_ptr<ImageModel> model_of(const ModelOptions& options, Freeze what) {
  at::manual_seed(1);
  auto model = make_image_model(options);
  model->prepare(at::kCPU);
  model->freeze(what);
  return model;
}

at::Tensor some_images() {
  at::manual_seed(2);
  return at::randn({2, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
}

std::vector<at::Tensor> copies(const std::vector<NamedTensor>& items) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& item : items) tensors.push_back(item.tensor.detach().clone());
  return tensors;
}

std::vector<std::string> names(const std::vector<NamedTensor>& items) {
  std::vector<std::string> all;
  for (const NamedTensor& item : items) all.push_back(item.name);
  return all;
}

// A training pass, after which the buffers are those of before.
void expect_frozen_pass(ImageModel& model) {
  const std::vector<at::Tensor> before = copies(model.buffers());
  EXPECT_FALSE(before.empty());
  model.train(true);
  model.forward(some_images()).square().sum().backward();
  for (const NamedTensor& item : model.named_parameters())
    EXPECT_EQ(item.tensor.grad().defined(), item.tensor.requires_grad()) << item.name;
  const std::vector<NamedTensor> after = model.buffers();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], after[i].tensor)) << after[i].name;
}

TEST(Freeze, OfABackboneLeavesTheHead) {
  const auto resnet = model_of({.model_name = "resnet18", .num_classes = 4}, Freeze::kBackbone);
  EXPECT_EQ(names(resnet->trained_parameters()),
            (std::vector<std::string>{"model.fc.weight", "model.fc.bias"}));
  expect_frozen_pass(*resnet);
  const auto densenet =
      model_of({.model_name = "densenet121", .num_classes = 4}, Freeze::kBackbone);
  EXPECT_EQ(names(densenet->trained_parameters()),
            (std::vector<std::string>{"model.classifier.weight", "model.classifier.bias"}));
  const auto designers = model_of(
      {.model_name = "resnet18", .num_classes = 4, .with_output_layer = true}, Freeze::kBackbone);
  EXPECT_EQ(names(designers->trained_parameters()),
            (std::vector<std::string>{"model.fc.weight", "model.fc.bias", "out_linear_model.weight",
                                      "out_linear_model.bias"}));
  expect_frozen_pass(*designers);
}

TEST(Freeze, OfNormsLeavesTheRest) {
  const auto model = model_of({.model_name = "resnet18", .num_classes = 4}, Freeze::kNorm);
  std::size_t num_norms = 0;
  for (const NamedTensor& item : model->named_parameters()) {
    const bool is_of_norm = item.tensor.dim() == 1 && item.name.find("fc.") == std::string::npos;
    num_norms += is_of_norm ? 1 : 0;
    EXPECT_EQ(item.tensor.requires_grad(), !is_of_norm) << item.name;
  }
  EXPECT_EQ(num_norms, 40U);
  expect_frozen_pass(*model);
}

TEST(Freeze, OfNormsIsOfLayerNormToo) {
  for (const auto& [network, num_norms] : {std::pair{"convnext_tiny", std::ptrdiff_t{23}},
                                           std::pair{"vit_s_16", std::ptrdiff_t{25}}}) {
    const auto model = model_of({.model_name = network, .num_classes = 4}, Freeze::kNorm);
    const auto all = model->parameters();
    EXPECT_EQ(std::ranges::count_if(all, [](const auto& one) { return !one.requires_grad(); }),
              2 * num_norms);
    EXPECT_TRUE(std::ranges::none_of(model->trained_parameters(), [](const NamedTensor& item) {
      return item.name.find("norm") != std::string::npos;
    }));
  }
}

TEST(Freeze, OfStagesGoesUpToThere) {
  struct Row {
    const char* network;
    int stage, last;
    const char *frozen, *trained;  // the last parameter that is not trained, and the first that is
  };
  for (const auto& [network, stage, last, frozen, trained] :
       {Row{"resnet18", 2, 4, "layer2.1.bn2.bias", "layer3.0.conv1.weight"},
        Row{"densenet121", 1, 4, "features.transition1.conv.weight",
            "features.denseblock2.denselayer1.norm1.weight"},
        Row{"mobilenet_v3_small", 12, 12, "classifier.0.bias", "classifier.3.weight"},
        Row{"efficientnet_b0", 3, 8, "features.3.1.block.3.1.bias",
            "features.4.0.block.0.0.weight"},
        Row{"convnext_tiny", 1, 4, "features.1.2.block.5.bias", "features.2.0.weight"},
        Row{"vit_b_16", 1, 12, "encoder.layers.encoder_layer_0.mlp.3.bias",
            "encoder.layers.encoder_layer_1.ln_1.weight"},
        Row{"vit_s_16", 12, 12, "norm.bias", "head.weight"}}) {
    const auto model =
        model_of({.model_name = network, .num_classes = 4}, static_cast<Freeze>(stage));
    const std::vector<NamedTensor> all = model->named_parameters();
    const auto first = std::ranges::find(all, "model." + std::string(trained), &NamedTensor::name);
    ASSERT_NE(first, all.end()) << network;
    EXPECT_EQ(std::prev(first)->name, "model." + std::string(frozen));
    for (auto item = all.begin(); item != all.end(); ++item)
      EXPECT_EQ(item->tensor.requires_grad(), item >= first) << network << ": " << item->name;
    EXPECT_EQ(model->stages().front(), network == std::string("convnext_tiny") ? 1 : 0);
    EXPECT_EQ(model->stages().back(), last + 1) << network;
    EXPECT_ANY_THROW(model->freeze(static_cast<Freeze>(last + 1))) << network;
  }
}

TEST(Freeze, OfStagesLeavesTheOthersMoving) {
  const auto model =
      model_of({.model_name = "efficientnet_b0", .num_classes = 4}, static_cast<Freeze>(3));
  const std::vector<at::Tensor> before = copies(model->buffers());
  model->train(true);
  model->forward(some_images()).square().sum().backward();
  const std::vector<NamedTensor> after = model->buffers();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_frozen = after[i].name < "model.features.4";
    EXPECT_EQ(at::equal(before[i], after[i].tensor), is_frozen) << after[i].name;
  }
  for (const NamedTensor& item : model->named_parameters())
    EXPECT_EQ(item.tensor.grad().defined(), item.tensor.requires_grad()) << item.name;
}

// Backward computes the frozen layers again as forward had them.
TEST(Freeze, OfNormsHoldsInAMemoryEfficientDenseNet) {
  std::vector<at::Tensor> gradients[2];
  for (const bool is_efficient : {false, true}) {
    const auto model =
        model_of({.model_name = "densenet121", .num_classes = 4, .memory_efficient = is_efficient},
                 Freeze::kNorm);
    expect_frozen_pass(*model);
    for (const NamedTensor& item : model->trained_parameters())
      gradients[is_efficient ? 1 : 0].push_back(item.tensor.grad());
  }
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_TRUE(at::allclose(gradients[0][i], gradients[1][i], 1e-4, 1e-6)) << i;
}

TEST(PooledFeatures, AreWhatTheHeadClassifies) {
  const auto model = model_of({.model_name = "resnet18", .num_classes = 4}, Freeze::kNone);
  model->train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor images = some_images(), features = model->pooled_features(images);
  EXPECT_EQ(features.sizes(), (std::vector<std::int64_t>{2, 512}));
  const std::vector<NamedTensor> head = model->head();
  ASSERT_EQ(head.size(), 2U);
  EXPECT_TRUE(
      at::equal(at::linear(features, head[0].tensor, head[1].tensor), model->forward(images)));
}

TEST(Buffers, AreWhatIsNoParameter) {
  const auto model = model_of({.model_name = "resnet18", .num_classes = 4}, Freeze::kBackbone);
  std::set<std::string> found;
  for (const std::string& name : names(model->buffers()))
    found.insert(name.substr(name.rfind('.')));
  EXPECT_EQ(found,
            (std::set<std::string>{".running_mean", ".running_var", ".num_batches_tracked"}));
}

}  // namespace
}  // namespace kiln
