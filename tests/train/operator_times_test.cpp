#include "train/operator_times.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

double seconds_of(const OperatorSums& sums, std::string_view name) {
  for (const OperatorSums::Kind& kind : sums.kinds)
    if (kind.name == name) return kind.seconds;
  ADD_FAILURE() << "no kind is called " << name;
  return 0;
}

TEST(OperatorTimes, AddUpForwardAndBackwardByKind) {
  const at::Tensor images = at::randn({2, 3, 8, 8});
  const at::Tensor kernels = at::randn({4, 3, 3, 3}).requires_grad_();
  const at::Tensor weights = at::randn({5, 4}).requires_grad_();
  const at::Tensor labels = at::tensor({1, 2}, at::kLong);
  const OperatorTimes times;
  const at::Tensor maps = at::conv2d(images, kernels, {}, 1, 1).relu();
  at::cross_entropy_loss(at::linear(maps.mean({2, 3}), weights), labels).backward();
  const OperatorSums& sums = times.sums();
  // Each output is a sum over the weights of its channel: 3 x 3 x 3, and 4.
  EXPECT_EQ(sums.forward_flops, 2.0 * (2 * 4 * 8 * 8 * 27 + 2 * 5 * 4));
  for (const char* name : {"convolution", "relu_and_add", "pooling_and_concatenation",
                           "linear_and_loss", "gradient_accumulation"})
    EXPECT_GT(seconds_of(sums, name), 0) << name;
  EXPECT_EQ(seconds_of(sums, "batch_norm"), 0);
  EXPECT_EQ(seconds_of(sums, "optimizer"), 0);
}

TEST(OperatorTimes, CountWhatIsReadAndWrittenButNoViews) {
  const at::Tensor a = at::ones({1000}), b = at::ones({1000});
  const OperatorTimes times;
  const at::Tensor c = a.add(b);
  const double once = times.sums().bytes;
  EXPECT_EQ(once, 3 * 4000);
  const at::Tensor view = c.view({10, 100}).slice(0, 2).t();
  EXPECT_EQ(times.sums().bytes, once);
  c.add_(b);
  EXPECT_EQ(times.sums().bytes, 2 * once);
}

TEST(OperatorTimes, EndWithTheObject) {
  { const OperatorTimes first; }
  const OperatorTimes second;
  EXPECT_EQ(second.sums().bytes, 0);
}

}  // namespace
}  // namespace kiln
