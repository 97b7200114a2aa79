#include "train/loss.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/nn/functional/loss.h>

#include <cmath>

namespace kiln {
namespace {

TEST(Loss, IsTheSumOfCrossEntropies) {
  const at::Tensor logits =
      torch::tensor({{0.0, 0.0}, {std::log(3.0), 0.0}}, at::kDouble).requires_grad_();
  const at::Tensor labels = torch::tensor({0, 0}, at::kLong);
  const double expected = std::log(2.0) + std::log(4.0 / 3.0);
  const at::Tensor training = TrainingLoss({})(logits, labels);
  EXPECT_NEAR(training.item<double>(), expected, 1e-12);
  EXPECT_TRUE(training.requires_grad());
  const at::Tensor reported = reported_loss(logits, labels);
  EXPECT_NEAR(reported.item<double>(), expected, 1e-12);
  EXPECT_FALSE(reported.requires_grad());
}

// PyTorch's cross_entropy(…, weight=tensor([0.5, 2.0, 1.0]), reduction="sum") of these logits and
// labels is sum w[label] * -log softmax[label].
TEST(Loss, WeighsImagesByTheirClass) {
  at::manual_seed(3);
  const at::Tensor logits = at::randn({5, 3}, at::kDouble).requires_grad_();
  const at::Tensor labels = torch::tensor({0, 1, 2, 1, 0}, at::kLong);
  const at::Tensor weights = torch::tensor({0.5, 2.0, 1.0, 2.0, 0.5}, at::kDouble);
  const at::Tensor each = -logits.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  const at::Tensor expected = (weights * each).sum();
  const TrainingLoss weighted({.class_weights = {0.5, 2, 1}});
  EXPECT_NEAR(weighted(logits, labels).item<double>(), expected.item<double>(), 1e-12);
  weighted(logits, labels).backward();
  const at::Tensor gradient =
      (logits.softmax(1) - at::one_hot(labels, 3).to(at::kDouble)) * weights.unsqueeze(1);
  EXPECT_TRUE(at::allclose(logits.grad(), gradient, 1e-12, 1e-12));
  const double reported = reported_loss(logits, labels).item<double>();
  EXPECT_NEAR(reported, each.sum().item<double>(), 1e-12);
  const at::Tensor floats = logits.detach().to(at::kFloat);
  EXPECT_NEAR(weighted(floats, labels).item<float>(), expected.item<double>(), 1e-5);
}

// As PyTorch's cross_entropy(label_smoothing=0.1), alone and with weights.
TEST(Loss, SmoothsLabels) {
  at::manual_seed(5);
  const at::Tensor logits = at::randn({6, 4}, at::kDouble);
  const at::Tensor labels = torch::tensor({0, 1, 2, 3, 1, 0}, at::kLong);
  for (const std::vector<double>& weights : {std::vector<double>{}, {0.5, 2, 1, 3}}) {
    at::Tensor target = 0.9 * at::one_hot(labels, 4).to(at::kDouble) + 0.1 / 4;
    if (!weights.empty()) target = target * torch::tensor(weights, at::kDouble);
    const double expected = -(target * logits.log_softmax(1)).sum().item<double>();
    const TrainingLoss smooth({.class_weights = weights, .label_smoothing = 0.1});
    EXPECT_NEAR(smooth(logits, labels).item<double>(), expected, 1e-12);
  }
}

// What a label with both classes in it would give.
TEST(Loss, OfTwoLabelsIsThatOfBothInOne) {
  at::manual_seed(6);
  const at::Tensor logits = at::randn({5, 3}, at::kDouble);
  const at::Tensor labels = torch::tensor({0, 1, 2, 1, 0}, at::kLong);
  const at::Tensor others = torch::tensor({1, 1, 0, 2, 2}, at::kLong);
  const at::Tensor shares = torch::tensor({0.5, 0.75, 1.0, 0.625, 0.875}, at::kFloat);
  const at::Tensor first = shares.to(at::kDouble).unsqueeze(1);
  const at::Tensor hot = first * at::one_hot(labels, 3).to(at::kDouble) +
                         (1 - first) * at::one_hot(others, 3).to(at::kDouble);
  for (const double smoothing : {0.0, 0.1}) {
    const at::Tensor target = (1 - smoothing) * hot + smoothing / 3;
    const double expected = -(target * logits.log_softmax(1)).sum().item<double>();
    const TrainingLoss loss({.label_smoothing = smoothing});
    EXPECT_NEAR(loss(logits, labels, others, shares).item<double>(), expected, 1e-12);
  }
}

TEST(Loss, WeighsEachImage) {
  at::manual_seed(7);
  const at::Tensor logits = at::randn({4, 3}, at::kDouble);
  const at::Tensor labels = torch::tensor({0, 1, 2, 1}, at::kLong);
  const at::Tensor others = torch::tensor({1, 1, 0, 2}, at::kLong);
  const at::Tensor weights = torch::tensor({2.0, 0.0, 0.5, 1.0}, at::kFloat);
  const at::Tensor their_weights = torch::tensor({1.0, 3.0, 0.0, 1.0}, at::kFloat);
  const at::Tensor shares = torch::tensor({0.5, 0.75, 1.0, 0.625}, at::kFloat);
  const auto each = [&](const at::Tensor& of) {
    return -logits.log_softmax(1).gather(1, of.unsqueeze(1)).squeeze(1);
  };
  const TrainingLoss loss({});
  EXPECT_NEAR(loss(logits, {labels, weights}).item<double>(),
              (weights * each(labels)).sum().item<double>(), 1e-12);
  EXPECT_NEAR(loss(logits, {labels, weights}, {others, their_weights}, shares).item<double>(),
              (shares * weights * each(labels) + (1 - shares) * their_weights * each(others))
                  .sum()
                  .item<double>(),
              1e-6);
}

TEST(Loss, WithoutWeightsKeepsItsBits) {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({7, 3});
  const at::Tensor labels = torch::tensor({0, 1, 2, 1, 0, 2, 2}, at::kLong);
  EXPECT_TRUE(
      at::equal(TrainingLoss({})(logits, labels),
                torch::nn::functional::cross_entropy(
                    logits, labels,
                    torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))));
}

}  // namespace
}  // namespace kiln
