#include "train/task.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <cmath>

#include "record/evaluation.h"
#include "train/evaluation.h"
#include "train/loss.h"

namespace kiln {
namespace {

const std::vector<std::vector<int>> kSets = {{}, {0}, {1, 2}, {0, 1, 2}};

// PyTorch's binary_cross_entropy_with_logits, written out.
at::Tensor expected_loss(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& weights) {
  const at::Tensor positive = logits.sigmoid().log(), negative = (-logits).sigmoid().log();
  return -(weights * targets * positive + (1 - targets) * negative).mean(1);
}

TEST(Task, SeveralLabelsAreBinaryCrossEntropies) {
  at::manual_seed(3);
  const at::Tensor logits = at::randn({4, 3}, at::kDouble).requires_grad_();
  const at::Tensor labels = torch::tensor({3, 0, 2, 1}, at::kLong);
  const at::Tensor targets =
      torch::tensor({{1, 1, 1}, {0, 0, 0}, {0, 1, 1}, {1, 0, 0}}, at::kDouble);
  const auto task = task_of(kSets, 3);
  const at::Tensor ones = torch::tensor({1, 1, 1}, at::kDouble);
  EXPECT_NEAR(reported_loss(logits, labels, *task).item<double>(),
              expected_loss(logits, targets, ones).sum().item<double>(), 1e-12);
  const TrainingLoss loss({.class_weights = {0.5, 3, 1}, .label_smoothing = 0.1}, at::kCPU, *task);
  const at::Tensor weights = torch::tensor({0.5, 3.0, 1.0}, at::kDouble);
  const at::Tensor smooth = targets * 0.9 + 0.05;
  const double plain = expected_loss(logits, smooth, weights).sum().item<double>();
  EXPECT_NEAR(loss(logits, labels).item<double>(), plain, 1e-12);
  EXPECT_TRUE(loss(logits, labels).requires_grad());
  // What a mixed label would give.
  const at::Tensor others = torch::tensor({1, 2, 2, 0}, at::kLong);
  const at::Tensor shares = torch::tensor({0.5, 0.75, 1.0, 0.625}, at::kFloat);
  const at::Tensor their_targets =
      torch::tensor({{1, 0, 0}, {0, 1, 1}, {0, 1, 1}, {0, 0, 0}}, at::kDouble);
  const at::Tensor first = shares.to(at::kDouble).unsqueeze(1);
  const at::Tensor mixed = (first * targets + (1 - first) * their_targets) * 0.9 + 0.05;
  EXPECT_NEAR(loss(logits, labels, others, shares).item<double>(),
              expected_loss(logits, mixed, weights).sum().item<double>(), 1e-12);
}

// Of several labels summed over the four classes, so that each is fitted as if it were alone.
TEST(Task, GivesTheLossOfEachImageAndItsGradient) {
  at::manual_seed(4);
  const at::Tensor labels = torch::tensor({3, 0, 2, 1}, at::kLong);
  for (const auto& [task, answers] : {std::pair{task_of(kSets, 4), 4}, {task_of({}, 4), 1}}) {
    const at::Tensor logits = at::randn({4, 4}, at::kDouble).requires_grad_();
    const at::Tensor losses = task->loss(logits, labels, {}, 0, at::Reduction::None) * answers;
    losses.sum().backward();
    const auto [values, slope] = task->loss_and_slope(logits.detach(), labels);
    EXPECT_LT((values - losses).abs().max().item<double>(), 1e-12);
    EXPECT_LT((slope - logits.grad()).abs().max().item<double>(), 1e-12);
  }
}

TEST(Task, CountsImagesWhoseLabelsAreAllRight) {
  const auto task = task_of(kSets, 3);
  const at::Tensor logits =
      torch::tensor({{-1.0F, 2.0F, 1.0F}, {-1.0F, -2.0F, -3.0F}, {5.0F, 1.0F, -1.0F}});
  MetricSums sums(at::kCPU);
  sums.add(logits, torch::tensor({2L, 0L, 3L}), torch::tensor(1.0F), 1, *task);
  EXPECT_EQ(sums.totals().top1, 2);
  EXPECT_EQ(sums.totals().top5, 2);  // the likeliest class of the second image is not there
  EXPECT_EQ(sums.totals().count, 3);
  const auto [shares, classes] = task->answers(logits);
  EXPECT_TRUE(at::equal(classes, torch::tensor({{1L, 2L, 0L}, {0L, 1L, 2L}, {0L, 1L, 2L}})));
  EXPECT_NEAR(shares[0][0].item<float>(), 1 / (1 + std::exp(-2.0)), 1e-6);
}

TEST(Task, OfOneLabelIsTheSameObject) {
  EXPECT_EQ(task_of({}, 3).get(), &single_label());
}

LabelAnswer answer(float logit, bool is_there) {
  return {.logit = logit, .is_there = is_there};
}

TEST(Task, FitsTemperatureAndThresholdOfAClass) {
  std::vector<LabelAnswer> ranked;
  for (int i = 0; i < 50; ++i) ranked.push_back(answer(8, i < 40));
  for (int i = 0; i < 50; ++i) ranked.push_back(answer(-8, i < 10));
  const LabelCalibration fitted = calibrated(ranked);
  EXPECT_NEAR(fitted.probability(8), 0.8, 1e-4);
  EXPECT_NEAR(fitted.probability(-8), 0.2, 1e-4);
  EXPECT_TRUE(fitted.predicts(8));
  EXPECT_FALSE(fitted.predicts(-8));
  const auto rate = answer_rate_for(fitted.answers, 0.6);
  ASSERT_TRUE(rate.has_value());
  EXPECT_EQ(rate->answered, 50);
  EXPECT_NEAR(rate->threshold, 0.8, 2e-3);
  EXPECT_FALSE(answer_rate_for(fitted.answers, 0.7).has_value());
  const std::vector<LabelAnswer> never = {answer(1, false), answer(-1, false)};
  EXPECT_EQ(calibrated(never).threshold, 0.5);
  EXPECT_EQ(calibrated(never).temperature, 1);
}

}  // namespace
}  // namespace kiln
