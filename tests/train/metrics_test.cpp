#include "train/evaluation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <limits>

namespace kiln {
namespace {

TEST(MetricSums, AddsBatchesOfDifferentSizes) {
  MetricSums metrics(at::kCPU);
  // Six classes, so top-5 can miss: class 0 ranks last in the first row.
  const at::Tensor row = torch::tensor({{-1.0F, 5.0F, 4.0F, 3.0F, 2.0F, 1.0F}});
  metrics.add(row.repeat({2, 1}), torch::tensor({0L, 1L}), torch::tensor(3.0F), 1);
  metrics.add(row, torch::tensor({5L}), torch::tensor(1.0F), 2);
  const Totals totals = metrics.totals();
  EXPECT_EQ(totals.count, 3);
  EXPECT_EQ(totals.top1, 1);
  EXPECT_EQ(totals.top5, 2);
  EXPECT_DOUBLE_EQ(totals.loss(), 4.0 / 3);
  EXPECT_EQ(metrics.read().batch.count, 1);
  EXPECT_DOUBLE_EQ(metrics.read().batch.loss(), 1.0);
  EXPECT_EQ(metrics.first_nonfinite_step(), 0);
}

TEST(MetricSums, RemembersTheFirstStepWithoutAFiniteLoss) {
  MetricSums metrics(at::kCPU);
  const at::Tensor logits = at::zeros({1, 2});
  const at::Tensor label = torch::tensor({0L});
  metrics.add(logits, label, torch::tensor(1.0F), 1);
  metrics.add(logits, label, torch::tensor(std::numeric_limits<float>::infinity()), 2);
  metrics.add(logits, label, torch::tensor(std::numeric_limits<float>::quiet_NaN()), 3);
  EXPECT_EQ(metrics.first_nonfinite_step(), 2);
}

}  // namespace
}  // namespace kiln
