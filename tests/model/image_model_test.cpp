// What files and users rely on in every network: names, their order, counts, shapes, and weights
// that depend on the seed.
#include "model/image_model.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "model/catalogue.h"
#include "model/layers.h"
#include "model/operators/autocast.h"

namespace kiln {
namespace {

std::unique_ptr<ImageModel> seeded_model(const ModelOptions& options, std::uint64_t seed = 1) {
  at::manual_seed(seed);
  return make_image_model(options);
}

std::vector<std::string> state_names(const ImageModel& model) {
  std::vector<std::string> names;
  for (const NamedTensor& item : model.state()) names.push_back(item.name);
  return names;
}

at::Tensor find_tensor(const ImageModel& model, const std::string& name) {
  for (const NamedTensor& item : model.state())
    if (item.name == name) return item.tensor;
  return {};
}

// torchvision's published parameter counts (1000 classes), and the state dicts' lengths.
struct ExpectedNetwork {
  const char* name;
  std::int64_t num_parameters;
  std::size_t num_tensors;
};

class EveryModel : public testing::TestWithParam<ExpectedNetwork> {};

TEST_P(EveryModel, HasTorchvisionsSize) {
  const auto model = make_image_model({.model_name = GetParam().name});
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, GetParam().num_parameters);
  const std::vector<std::string> names = state_names(*model);
  EXPECT_EQ(names.size(), GetParam().num_tensors);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_TRUE(name.starts_with("model.")) << name;
}

constexpr std::array kExpected{ExpectedNetwork{"resnet18", 11689512, 122},
                               ExpectedNetwork{"resnet34", 21797672, 218},
                               ExpectedNetwork{"resnet50", 25557032, 320},
                               ExpectedNetwork{"resnet101", 44549160, 626},
                               ExpectedNetwork{"resnet152", 60192808, 932},
                               ExpectedNetwork{"resnext50_32x4d", 25028904, 320},
                               ExpectedNetwork{"resnext101_32x8d", 88791336, 626},
                               ExpectedNetwork{"wide_resnet50_2", 68883240, 320},
                               ExpectedNetwork{"wide_resnet101_2", 126886696, 626},
                               ExpectedNetwork{"densenet121", 7978856, 727},
                               ExpectedNetwork{"densenet161", 28681000, 967},
                               ExpectedNetwork{"densenet169", 14149480, 1015},
                               ExpectedNetwork{"densenet201", 20013928, 1207},
                               ExpectedNetwork{"mobilenet_v3_large", 5483032, 312},
                               ExpectedNetwork{"mobilenet_v3_small", 2542856, 244},
                               ExpectedNetwork{"efficientnet_b0", 5288548, 360},
                               ExpectedNetwork{"efficientnet_b1", 7794184, 508},
                               ExpectedNetwork{"efficientnet_b2", 9109994, 508},
                               ExpectedNetwork{"efficientnet_b3", 12233232, 574},
                               ExpectedNetwork{"efficientnet_v2_s", 21458488, 782},
                               ExpectedNetwork{"convnext_tiny", 28589128, 182},
                               ExpectedNetwork{"convnext_small", 50223688, 344},
                               ExpectedNetwork{"convnext_base", 88591464, 344},
                               ExpectedNetwork{"vit_b_16", 86567656, 152},
                               ExpectedNetwork{"vit_s_16", 22050664, 152},
                               ExpectedNetwork{"vit_s_14", 22441192, 176},
                               ExpectedNetwork{"vit_b_14", 87348712, 176}};

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(kExpected),
                         [](const auto& model) { return std::string(model.param.name); });

TEST(ImageModel, EveryNetworkOfTheCatalogueHasAnExpectedSize) {
  std::vector<std::string> expected;
  for (const ExpectedNetwork& model : kExpected) expected.emplace_back(model.name);
  EXPECT_EQ(network_names(), expected);
}

TEST(ImageModel, RefusesAnUnknownName) {
  try {
    make_image_model({.model_name = "vgg16"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("'vgg16'"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("resnet18"), std::string::npos) << error.message();
  }
}

TEST(ImageModel, ResNetNamesStandInModuleOrder) {
  const auto names = state_names(*make_image_model({.model_name = "resnet18"}));
  const std::vector<std::string> first{
      "model.conv1.weight",         "model.bn1.weight",      "model.bn1.bias",
      "model.bn1.running_mean",     "model.bn1.running_var", "model.bn1.num_batches_tracked",
      "model.layer1.0.conv1.weight"};
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 7), first);
  const auto at = [&](const char* name) { return std::find(names.begin(), names.end(), name); };
  EXPECT_LT(at("model.layer2.0.bn2.num_batches_tracked"), at("model.layer2.0.downsample.0.weight"));
  EXPECT_LT(at("model.layer2.0.downsample.1.num_batches_tracked"),
            at("model.layer2.1.conv1.weight"));
  EXPECT_EQ(names.back(), "model.fc.bias");
}

TEST(ImageModel, DenseNetNamesStandInModuleOrder) {
  const auto names = state_names(*make_image_model({.model_name = "densenet121"}));
  EXPECT_EQ(names.front(), "model.features.conv0.weight");
  const auto at = [&](const char* name) { return std::find(names.begin(), names.end(), name); };
  EXPECT_EQ(at("model.features.denseblock1.denselayer1.conv1.weight") -
                at("model.features.denseblock1.denselayer1.norm1.weight"),
            5);
  EXPECT_LT(at("model.features.transition3.conv.weight"), at("model.features.norm5.weight"));
  EXPECT_EQ(names.back(), "model.classifier.bias");
}

TEST(ImageModel, CountsBatchesInInt64) {
  const auto model = make_image_model({.model_name = "resnet18", .num_classes = 2});
  model->train(true);
  model->forward(at::randn({2, 3, 32, 32}));
  const at::Tensor count = find_tensor(*model, "model.bn1.num_batches_tracked");
  EXPECT_EQ(count.scalar_type(), at::kLong);
  EXPECT_EQ(count.dim(), 0);
  EXPECT_EQ(count.item<std::int64_t>(), 1);
}

TEST(ImageModel, EvaluationChangesNothingAndIsPerImage) {
  for (const char* name : {"resnet18", "densenet121"}) {
    const auto model = seeded_model({.model_name = name, .num_classes = 3});
    model->train(false);
    const at::NoGradGuard no_grad;
    const at::Tensor before = find_tensor(*model, model->state()[3].name).clone();
    const at::Tensor images = at::randn({3, 3, 40, 40});
    const at::Tensor together = model->forward(images);
    EXPECT_EQ(together.sizes(), (std::vector<std::int64_t>{3, 3}));
    EXPECT_TRUE(
        at::allclose(together.slice(0, 1, 2), model->forward(images.slice(0, 1, 2)), 1e-4, 1e-4));
    EXPECT_TRUE(at::equal(find_tensor(*model, model->state()[3].name), before));
  }
}

// oneDNN's kernels for AMX leave a part of this gradient as the memory was.
TEST(ImageModel, StridedConvolutionOfOnePixelHasAWholeGradientInBfloat16) {
  Conv2d conv({.in_channels = 64, .out_channels = 64, .kernel = 3, .stride = 2});
  at::Tensor& weight = conv.weight();
  {
    const at::NoGradGuard no_grad;
    weight.fill_(0.01);
  }
  const at::Tensor images = at::randn({12, 64, 1, 1}).contiguous(at::MemoryFormat::ChannelsLast);
  for (int i = 0; i < 8; ++i) {
    for (const int bytes : {14, 16, 17, 18})
      at::full({std::int64_t{1} << bytes}, std::nan(""), at::kBFloat16);
    const Autocast bf16(c10::kCPU, c10::kBFloat16);
    const at::Tensor gradient =
        torch::autograd::grad({conv.forward(images).sum()}, {weight}).front();
    EXPECT_TRUE(at::isfinite(gradient).all().item<bool>());
    EXPECT_EQ(gradient.select(2, 0).abs().sum().item<double>(), 0);
  }
}

TEST(ImageModel, OutputLayerComesAfterTheThousandClasses) {
  const auto model =
      make_image_model({.model_name = "resnet18", .num_classes = 7, .with_output_layer = true});
  const auto names = state_names(*model);
  EXPECT_EQ(names[names.size() - 2], "out_linear_model.weight");
  EXPECT_EQ(names.back(), "out_linear_model.bias");
  EXPECT_EQ(find_tensor(*model, "model.fc.weight").size(0), 1000);
  EXPECT_EQ(find_tensor(*model, "out_linear_model.weight").sizes(),
            (std::vector<std::int64_t>{7, 1000}));
  EXPECT_EQ(model->forward(at::randn({2, 3, 32, 32})).sizes(), (std::vector<std::int64_t>{2, 7}));
}

// Against a network of one linear layer that does the work of both.
TEST(ImageModel, ClassMapsGoThroughTheOutputLayer) {
  const auto two_layers =
      seeded_model({.model_name = "resnet18", .num_classes = 3, .with_output_layer = true});
  const auto one_layer = seeded_model({.model_name = "resnet18", .num_classes = 3});
  two_layers->train(false);
  one_layer->train(false);
  const at::NoGradGuard no_grad;
  for (const NamedTensor& item : one_layer->state())
    if (!item.name.starts_with("model.fc.")) item.tensor.copy_(find_tensor(*two_layers, item.name));
  find_tensor(*one_layer, "model.fc.weight")
      .copy_(find_tensor(*two_layers, "out_linear_model.weight")
                 .mm(find_tensor(*two_layers, "model.fc.weight")));
  const at::Tensor images = at::randn({3, 3, 96, 96});
  const at::Tensor maps = two_layers->class_maps(images, {2, 0, 1});
  EXPECT_EQ(maps.sizes(), (std::vector<std::int64_t>{3, 3, 3}));
  EXPECT_TRUE(at::allclose(maps, one_layer->class_maps(images, {2, 0, 1}), 1e-4, 1e-4));
  EXPECT_FALSE(at::allclose(maps, two_layers->class_maps(images, {0, 1, 2}), 1e-2, 1e-2));
}

TEST(ImageModel, ClassMapsReachOneOrAreAllZero) {
  const auto model = seeded_model({.model_name = "resnet18", .num_classes = 2});
  model->train(false);
  const at::NoGradGuard no_grad;
  // What speaks for one class speaks against the other.
  const at::Tensor weight = find_tensor(*model, "model.fc.weight");
  weight[0].fill_(1);
  weight[1].fill_(-1);
  const at::Tensor maps = model->class_maps(at::randn({2, 3, 64, 64}), {0, 1});
  EXPECT_EQ(maps[0].max().item<float>(), 1);
  EXPECT_GE(maps[0].min().item<float>(), 0);
  EXPECT_EQ(maps[1].abs().max().item<float>(), 0);
}

TEST(ImageModel, SameSeedSameWeights) {
  for (const char* name : {"resnet18", "densenet121"}) {
    const auto first = seeded_model({.model_name = name, .num_classes = 3});
    const auto again = seeded_model({.model_name = name, .num_classes = 3});
    const auto other = seeded_model({.model_name = name, .num_classes = 3}, 2);
    for (std::size_t i = 0; i < first->state().size(); ++i)
      EXPECT_TRUE(at::equal(first->state()[i].tensor, again->state()[i].tensor));
    EXPECT_FALSE(at::equal(first->state()[0].tensor, other->state()[0].tensor));
  }
}

TEST(ImageModel, PrepareKeepsValuesAndHandlesAndStoresChannelsLast) {
  const auto model = seeded_model({.model_name = "resnet18", .num_classes = 3});
  model->train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor images = at::randn({2, 3, 32, 32});
  const at::Tensor before = model->forward(images);
  const at::Tensor held = model->parameters().front();
  model->prepare(at::kCPU);
  EXPECT_TRUE(held.is_same(model->parameters().front()));
  EXPECT_TRUE(held.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(held.requires_grad());
  const at::Tensor after = model->forward(images.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::allclose(before, after, 1e-4, 1e-4));
}

TEST(ImageModel, Float64LeavesCountersAlone) {
  const auto model = make_image_model({.model_name = "resnet18", .num_classes = 3});
  model->to_float64();
  EXPECT_EQ(find_tensor(*model, "model.bn1.running_var").scalar_type(), at::kDouble);
  EXPECT_EQ(find_tensor(*model, "model.bn1.num_batches_tracked").scalar_type(), at::kLong);
  EXPECT_EQ(model->forward(at::randn({2, 3, 32, 32}, at::kDouble)).scalar_type(), at::kDouble);
}

}  // namespace
}  // namespace kiln
