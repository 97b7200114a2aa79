// Folded and fused networks give the logits of unfolded ones, with the convolutions doing the work.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/image_model.h"
#include "model/operators/autocast.h"
#include "model/operators/fused_convolution.h"

namespace kiln {
namespace {

struct Expected {
  const char* name;
  std::size_t num_folded;  // convolutions that BatchNorm directly follows
};

class FoldedModel : public testing::TestWithParam<Expected> {
 protected:
  // Statistics and weights of BatchNorm that change what they are applied to.
  void SetUp() override {
    at::manual_seed(1);
    model_ = make_image_model({.model_name = GetParam().name, .num_classes = 5});
    const at::NoGradGuard no_grad;
    for (const NamedTensor& item : model_->state()) {
      const bool is_of_norm = item.tensor.dim() == 1;
      if (item.name.ends_with("running_mean") || (is_of_norm && item.name.ends_with("bias")))
        item.tensor.uniform_(-0.3, 0.3);
      if (item.name.ends_with("running_var") || (is_of_norm && item.name.ends_with("weight")))
        item.tensor.uniform_(0.5, 1.5);
    }
    model_->prepare(at::kCPU);
    model_->train(false);
  }

  std::vector<at::Tensor> copies_of_convolutions() const {
    std::vector<at::Tensor> weights;
    for (const NamedTensor& item : model_->state())
      if (item.tensor.dim() == 4) weights.push_back(item.tensor.detach().clone());
    return weights;
  }

  std::unique_ptr<ImageModel> model_;
};

TEST_P(FoldedModel, GivesTheSameLogits) {
  const at::InferenceMode inference;
  const at::Tensor images = at::randn({2, 3, 64, 64}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor expected = model_->forward(images);
  model_->fold_batch_norm();
  const at::Tensor logits = model_->forward(images);
  const double scale = expected.abs().max().item<double>();
  EXPECT_GT(scale, 1e-3);
  EXPECT_LT((logits - expected).abs().max().item<double>(), 2e-5 * scale);
  EXPECT_FALSE(logits.equal(expected));
}

TEST_P(FoldedModel, GivesTheSameClassMaps) {
  const at::InferenceMode inference;
  const at::Tensor images = at::randn({2, 3, 64, 64}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor expected = model_->class_maps(images, {4, 0});
  EXPECT_EQ(expected.sizes(), (std::vector<std::int64_t>{2, 2, 2}));
  model_->fold_batch_norm();
  EXPECT_LT((model_->class_maps(images, {4, 0}) - expected).abs().max().item<double>(), 1e-4);
}

TEST_P(FoldedModel, ConvolutionsChangeOnceAndKeepTheirLayout) {
  const std::vector<at::Tensor> before = copies_of_convolutions();
  model_->fold_batch_norm();
  const std::vector<at::Tensor> folded = copies_of_convolutions();
  std::size_t num_changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    num_changed += before[i].equal(folded[i]) ? 0 : 1;
    EXPECT_TRUE(folded[i].is_contiguous(at::MemoryFormat::ChannelsLast));
  }
  EXPECT_EQ(num_changed, GetParam().num_folded);
  model_->fold_batch_norm();
  const std::vector<at::Tensor> again = copies_of_convolutions();
  for (std::size_t i = 0; i < folded.size(); ++i) EXPECT_TRUE(again[i].equal(folded[i]));
}

class FusedModel : public FoldedModel {
 protected:
  void SetUp() override {
    FoldedModel::SetUp();
    model_->fold_batch_norm();
  }

  // A batch for each of these numbers of images, whose sides are odd in one of the networks'
  // layers.
  static std::vector<at::Tensor> batches() {
    std::vector<at::Tensor> all;
    for (const std::int64_t count : {9, 1})
      all.push_back(at::randn({count, 3, 75, 108}).contiguous(at::MemoryFormat::ChannelsLast));
    return all;
  }

  static double largest_gap(const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).abs().max() / b.abs().max()).item<double>();
  }
};

TEST_P(FusedModel, GivesTheSameLogits) {
  const at::InferenceMode inference;
  std::vector<at::Tensor> expected;
  const std::vector<at::Tensor> images = batches();
  for (const at::Tensor& batch : images) expected.push_back(model_->forward(batch));
  model_->fuse();
  for (std::size_t i = 0; i < images.size(); ++i) {
    const at::Tensor unchanged = images[i].clone();
    const at::Tensor logits = model_->forward(images[i]);
    EXPECT_LT(largest_gap(logits, expected[i]), 1e-5);
    EXPECT_TRUE(can_fuse(images[i]));
    EXPECT_TRUE(images[i].equal(unchanged));
  }
}

TEST_P(FusedModel, Bfloat16IsAsNearAsUnfusedBfloat16) {
  const at::InferenceMode inference;
  const at::Tensor images = batches().front();
  EXPECT_TRUE(can_fuse(images.to(c10::kBFloat16)) || !__builtin_cpu_supports("avx512bf16"));
  const at::Tensor exact = model_->forward(images);
  const auto forward_in_bf16 = [&] {
    const Autocast bf16(c10::kCPU, c10::kBFloat16);
    return model_->forward(images).to(c10::kFloat);
  };
  const double unfused = largest_gap(forward_in_bf16(), exact);
  model_->fuse();
  EXPECT_LT(largest_gap(forward_in_bf16(), exact), std::max(1.5 * unfused, 0.01));
}

TEST_P(FusedModel, IsPlainOutsideOfInferenceMode) {
  const at::NoGradGuard no_grad;
  const at::Tensor images = batches().front();
  const at::Tensor expected = model_->forward(images);
  model_->fuse();
  {
    const at::InferenceMode inference;
    model_->forward(images);
  }
  EXPECT_TRUE(model_->forward(images).equal(expected));
}

TEST_P(FusedModel, DoesNotTurnNaNIntoAnAnswer) {
  const at::InferenceMode inference;
  model_->state().front().tensor.select(0, 0).fill_(std::nan(""));
  model_->fuse();
  EXPECT_TRUE(model_->forward(batches().front()).isnan().all().item<bool>());
}

TEST_P(FusedModel, DoesNotTurnOverflowIntoAnAnswer) {
  const at::InferenceMode inference;
  for (const NamedTensor& item : model_->state())
    if (item.tensor.dim() == 4) item.tensor.mul_(1e6);
  model_->fuse();
  EXPECT_FALSE(model_->forward(batches().front()).isfinite().any().item<bool>());
}

// All convolutions of a ResNet; of a DenseNet the first one and the bottlenecks, since BatchNorm
// comes before the others.
INSTANTIATE_TEST_SUITE_P(Networks, FoldedModel,
                         testing::Values(Expected{"resnet18", 20}, Expected{"resnext50_32x4d", 53},
                                         Expected{"densenet121", 59}),
                         [](const auto& expected) { return std::string(expected.param.name); });
INSTANTIATE_TEST_SUITE_P(Networks, FusedModel,
                         testing::Values(Expected{"resnet18", 0}, Expected{"resnext50_32x4d", 0},
                                         Expected{"densenet121", 0}),
                         [](const auto& expected) { return std::string(expected.param.name); });

}  // namespace
}  // namespace kiln
