#include "model/weights/starting_weights.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/catalogue.h"
#include "model/positions.h"

namespace kiln {
namespace {

using Names = std::vector<std::string>;

std::unique_ptr<ImageModel> seeded(std::uint64_t seed, int num_classes,
                                   bool with_output_layer = false,
                                   const std::string& name = "resnet18") {
  at::manual_seed(seed);
  return make_image_model(
      {.model_name = name, .num_classes = num_classes, .with_output_layer = with_output_layer});
}

at::Tensor tensor_of(const ImageModel& model, const std::string& name) {
  for (const NamedTensor& item : model.state())
    if (item.name == name) return item.tensor.detach();
  ADD_FAILURE() << name;
  return {};
}

WeightSource source_of(const ImageModel& model, Names classes = {}) {
  WeightSource source;
  source.where = "w";
  source.kind = "a state dict";
  source.state = to_state_dict(model);
  source.classes = std::move(classes);
  return source;
}

std::string load(ImageModel& model, const Names& classes, WeightSource source) {
  return load_weights(model, "resnet18", classes, std::move(source));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_equal(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_TRUE(at::equal(a, b));
}

// Everything but the last layers.
void expect_same_backbone(const ImageModel& a, const ImageModel& b) {
  for (const NamedTensor& item : a.state())
    if (!item.name.starts_with("model.fc.") && !item.name.starts_with("out_linear"))
      expect_equal(item.tensor, tensor_of(b, item.name));
}

std::unique_ptr<ImageModel> without_values(const std::string& network) {
  return make_image_model({.model_name = network, .num_classes = 2, .is_initialized = false});
}

// All but the vectors and the head of a network, without their bytes, which are not read before
// they fit.
WeightSource kernels_of(const std::string& network) {
  WeightSource source;
  source.where = "w.pth";
  const auto model = without_values(network);
  const std::string head = model->head().front().name;
  for (const NamedTensor& item : model->state())
    if (item.tensor.dim() >= 2 && item.name != head)
      source.state.push_back({item.name, DType::kFloat32, item.tensor.sizes().vec(), ""});
  return source;
}

std::string fault_of(const std::string& network, WeightSource source) {
  try {
    load_weights(*without_values(network), network, {}, std::move(source));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    return error.message();
  }
  return "no fault";
}

// Convolutions alone are the right ones, but not all that is needed.
TEST(RequireWeightsOf, TellsAllNetworksApart) {
  for (const std::string& network : network_names()) {
    const std::string other = network == "resnet18" ? "resnet34" : "resnet18";
    const std::string fault = fault_of(other, kernels_of(network));
    EXPECT_TRUE(contains(fault, "are not those of " + other + ";")) << network << fault;
    EXPECT_TRUE(contains(fault_of(network, kernels_of(network)), "; missing: model.")) << network;
  }
}

// A network's file may have all that a smaller one needs.
TEST(RequireWeightsOf, OffersTheNetworkThatTheFileNames) {
  WeightSource source = kernels_of("resnet34");
  std::string fault = fault_of("resnet18", source);
  EXPECT_TRUE(contains(fault, "The weights in 'w.pth' are not those of resnet18")) << fault;
  EXPECT_TRUE(contains(fault, "Give weights of resnet18.")) << fault;
  source.network = "resnet34";
  fault = fault_of("resnet18", source);
  EXPECT_TRUE(contains(fault, "They are those of resnet34: use that network")) << fault;
}

TEST(RequireWeightsOf, NamesWhatDiffers) {
  WeightSource source = kernels_of("resnet18");
  source.state[0].shape[1] = 1;
  source.state[1].name = "model.other.weight";
  const std::string fault = fault_of("resnet18", source);
  EXPECT_TRUE(contains(fault, "missing: model.layer1.0.conv1.weight; unexpected: model.other."))
      << fault;
  EXPECT_TRUE(
      contains(fault, "model.conv1.weight has shape [64, 1, 7, 7] instead of [64, 3, 7, 7]"));
  EXPECT_TRUE(contains(fault, "Give weights of resnet18."));
}

TEST(RequireWeightsOf, RefusesWhereNothingIsAlike) {
  WeightSource source;
  source.state.push_back({"model.patch_embed.weight", DType::kFloat32, {8, 3, 4, 4}, ""});
  EXPECT_TRUE(contains(fault_of("resnet50", source), "unexpected: model.patch_embed.weight"));
  source.state.clear();
  EXPECT_TRUE(contains(fault_of("resnet50", source), "missing: model."));
}

TEST(RequireWeightsOf, NamesRelatives) {
  for (const auto& [part, name] :
       {std::pair{"register_tokens", "registers"}, std::pair{"reg_token", "registers"},
        std::pair{"dist_token", "a distilled ViT"}, std::pair{"storage_tokens", "DINOv3"},
        std::pair{"blocks.0.gamma_1", "a DINOv3, an EVA"}}) {
    WeightSource source = kernels_of("vit_s_14");
    source.state.push_back({std::string("model.") + part, DType::kFloat32, {1, 4, 384}, ""});
    EXPECT_TRUE(contains(fault_of("vit_s_14", source), name)) << part;
  }
  WeightSource deeper = kernels_of("vit_s_14");
  deeper.state.push_back({"model.blocks.12.attn.qkv.weight", DType::kFloat32, {1152, 384}, ""});
  EXPECT_TRUE(contains(fault_of("vit_s_14", deeper), "unexpected: model.blocks.12."));
}

TEST(RequireWeightsOf, NamesTensorsThatWouldChangeTheAnswers) {
  for (const auto& [network, name] :
       {std::pair{"vit_s_16", "model.blocks.0.ls1.gamma"},
        std::pair{"vit_s_16", "model.norm_pre.bias"},
        std::pair{"vit_b_16", "model.encoder.layers.encoder_layer_0.ls1.gamma"},
        std::pair{"resnet18", "model.layer1.0.conv1.bias"}}) {
    WeightSource source = kernels_of(network);
    source.state.push_back({name, DType::kFloat16, {64}, ""});
    EXPECT_TRUE(contains(fault_of(network, source), std::string("unexpected: ") + name)) << name;
    if (network == std::string("resnet18")) source.state.back().shape = {1, 1, 3};  // ECA, say
    EXPECT_TRUE(contains(fault_of(network, source), std::string("unexpected: ") + name)) << name;
    source.state.back() = {"model.layer1.total_ops", DType::kFloat64, {1}, ""};  // of a profiler
    EXPECT_FALSE(contains(fault_of(network, source), "unexpected")) << name;
  }
}

// DINOv2's has a token for masked training, which is left out.
TEST(LoadWeights, ResamplesThePositionsOfAnotherSize) {
  const ModelOptions options{.model_name = "vit_s_14", .num_classes = 2};
  const auto trained = make_image_model(options), own = make_image_model(options);
  WeightSource source = source_of(*trained);
  for (StoredTensor& tensor : source.state) {
    if (tensor.name != "model.pos_embed") continue;
    const at::Tensor table = tensor_of(*trained, tensor.name);
    const at::Tensor small = resampled_positions(table, 16, 16);
    EXPECT_EQ(small.sizes(), (std::vector<std::int64_t>{1, 257, 384}));
    tensor = to_state_dict({{tensor.name, small}}).front();
  }
  source.state.push_back(to_state_dict({{"model.mask_token", at::zeros({1, 384})}}).front());
  const std::string text = load_weights(*own, "vit_s_14", {}, std::move(source));
  EXPECT_TRUE(contains(text, "16x16 patches to 37x37")) << text;
  EXPECT_TRUE(contains(text, "not loaded: mask_token")) << text;
  const at::Tensor mine = tensor_of(*own, "model.pos_embed");
  const at::Tensor theirs = tensor_of(*trained, "model.pos_embed");
  expect_equal(mine.select(1, 0), theirs.select(1, 0));
  expect_equal(tensor_of(*own, "model.blocks.3.attn.qkv.weight"),
               tensor_of(*trained, "model.blocks.3.attn.qkv.weight"));
}

TEST(LoadWeights, NamesOfTheirOwnStayAsTheyAre) {
  for (const char* name : {"resnet18", "densenet121", "mobilenet_v3_large", "efficientnet_b0",
                           "efficientnet_v2_s", "convnext_tiny", "vit_s_16", "vit_b_16"}) {
    StateDict state = source_of(*make_image_model({.model_name = name, .num_classes = 2})).state;
    std::vector<std::string> before, after;
    for (const StoredTensor& tensor : state) before.push_back(tensor.name);
    StateDictParts parts;
    to_own_names(state, parts);
    for (const StoredTensor& tensor : state) after.push_back(tensor.name);
    EXPECT_EQ(after, before) << name;
  }
}

TEST(Positions, ProductsOfMatricesResampleThemAsTheOperatorDoes) {
  const at::Tensor maps = at::randn({1, 3, 7, 5});
  for (const auto& [height, width] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 5}, {16, 16}, {3, 4}, {7, 9}}) {
    const at::Tensor expected = at::_upsample_bicubic2d_aa(maps, {height, width}, false);
    const at::Tensor found = resampled_by_products(maps, height, width);
    EXPECT_LT((found - expected).abs().max().item<float>(), 2e-6);
  }
}

TEST(LoadWeights, OfTwoLayersBeforeTheClassesKeepsTheFirst) {
  const auto trained = make_image_model({.model_name = "mobilenet_v3_large", .num_classes = 5});
  const auto own = make_image_model({.model_name = "mobilenet_v3_large", .num_classes = 2});
  const std::string text =
      load_weights(*own, "mobilenet_v3_large", {"a", "b"}, source_of(*trained));
  EXPECT_TRUE(contains(text, "fresh: classifier.3.weight, classifier.3.bias")) << text;
  expect_equal(tensor_of(*own, "model.classifier.0.weight"),
               tensor_of(*trained, "model.classifier.0.weight"));
}

TEST(LoadWeights, TakesAllForTheSameClasses) {
  const auto theirs = seeded(1, 3), own = seeded(2, 3);
  const std::string text = load(*own, {"a", "b", "c"}, source_of(*theirs, {"a", "b", "c"}));
  EXPECT_TRUE(contains(text, "122 of 122 tensors from 'w' (a state dict)")) << text;
  EXPECT_FALSE(contains(text, "fresh"));
  for (const NamedTensor& item : theirs->state())
    expect_equal(item.tensor, tensor_of(*own, item.name));
}

TEST(LoadWeights, LeavesALastLayerOfOtherClassesFresh) {
  const auto theirs = seeded(1, 1000), own = seeded(2, 3), before = seeded(2, 3);
  const std::string text = load(*own, {"a", "b", "c"}, source_of(*theirs));
  EXPECT_TRUE(contains(text, "120 of 122 tensors")) << text;
  EXPECT_TRUE(contains(text, "fresh: fc.weight, fc.bias; the last layer is fresh, since")) << text;
  expect_same_backbone(*own, *theirs);
  expect_equal(tensor_of(*own, "model.fc.weight"), tensor_of(*before, "model.fc.weight"));
}

TEST(LoadWeights, KeepsTheRowsOfKnownClasses) {
  const auto theirs = seeded(1, 2), own = seeded(2, 3), before = seeded(2, 3);
  load(*own, {"b", "new", "a"}, source_of(*theirs, {"a", "b"}));
  for (const char* name : {"model.fc.weight", "model.fc.bias"}) {
    const at::Tensor ours = tensor_of(*own, name), given = tensor_of(*theirs, name);
    expect_equal(ours[0], given[1]);
    expect_equal(ours[1], tensor_of(*before, name)[1]);
    expect_equal(ours[2], given[0]);
  }
}

TEST(LoadWeights, JoinsTheTwoLastLayersOfTheDesigner) {
  const auto theirs = seeded(1, 3, /*with_output_layer=*/true), own = seeded(2, 3);
  load(*own, {"c", "a", "b"}, source_of(*theirs, {"a", "b", "c"}));
  theirs->train(false);
  own->train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor images = at::randn({2, 3, 32, 32});
  const at::Tensor wanted = theirs->forward(images).index_select(1, at::tensor({2, 0, 1}));
  EXPECT_TRUE(at::allclose(own->forward(images), wanted, 1e-4, 1e-4));
}

TEST(LoadWeights, KeepsTheTwoLastLayersWhereTheyAreAskedFor) {
  const auto theirs = seeded(1, 2, true), own = seeded(2, 2, true);
  load(*own, {"b", "a"}, source_of(*theirs, {"a", "b"}));
  expect_equal(tensor_of(*own, "model.fc.weight"), tensor_of(*theirs, "model.fc.weight"));
  expect_equal(tensor_of(*own, "out_linear_model.bias")[0],
               tensor_of(*theirs, "out_linear_model.bias")[1]);
  const auto published = seeded(3, 1000), fresh = seeded(2, 2, true);
  const auto tuned = seeded(2, 2, true);
  const std::string text = load(*tuned, {"a", "b"}, source_of(*published));
  EXPECT_TRUE(contains(text, "fresh: out_linear_model.weight, out_linear_model.bias")) << text;
  expect_equal(tensor_of(*tuned, "model.fc.bias"), tensor_of(*published, "model.fc.bias"));
  expect_equal(tensor_of(*tuned, "out_linear_model.bias"),
               tensor_of(*fresh, "out_linear_model.bias"));
}

TEST(LoadWeights, KeepsTheThousandOutputsForNoDataYet) {
  const auto theirs = seeded(1, 3, true), own = seeded(2, 1000);
  const std::string text = load(*own, {}, source_of(*theirs, {"a", "b", "c"}));
  EXPECT_TRUE(contains(text, "122 of 122")) << text;
  EXPECT_TRUE(contains(text, "output layer is not loaded, since it is for other classes")) << text;
  expect_equal(tensor_of(*own, "model.fc.weight"), tensor_of(*theirs, "model.fc.weight"));
  const auto small = seeded(1, 3), again = seeded(2, 1000);
  EXPECT_TRUE(contains(load(*again, {}, source_of(*small)), "3 outputs instead of 1000"));
}

TEST(LoadWeights, NamesWhatItLeavesOutAndForgivesMissingCounters) {
  const auto theirs = seeded(1, 2), own = seeded(2, 2);
  WeightSource source = source_of(*theirs);
  std::erase_if(source.state, [](const StoredTensor& tensor) {
    return tensor.name.ends_with("num_batches_tracked");
  });
  source.state.push_back({"model.head.bias", DType::kFloat32, {1}, std::string(4, 0)});
  const std::string text = load(*own, {"a", "b"}, std::move(source));
  EXPECT_TRUE(contains(text, "nothing says which output")) << text;
  EXPECT_TRUE(contains(text, "; not loaded: head.bias")) << text;
  expect_same_backbone(*own, *theirs);
}

TEST(LoadWeights, CopiesNothingWhereSomethingIsMissing) {
  const auto theirs = seeded(1, 2), own = seeded(2, 2), before = seeded(2, 2);
  WeightSource source = source_of(*theirs);
  std::erase_if(source.state,
                [](const StoredTensor& tensor) { return tensor.name == "model.bn1.running_var"; });
  try {
    load(*own, {"a", "b"}, std::move(source));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.message(), "missing: model.bn1.running_var")) << error.message();
  }
  expect_same_backbone(*own, *before);
}

}  // namespace
}  // namespace kiln
