#include "model/loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace kiln {
namespace {

TEST(Loss, IsTheMeanCrossEntropy) {
  const at::Tensor logits = torch::tensor({{0.0, 0.0}, {std::log(3.0), 0.0}}, at::kDouble);
  const at::Tensor labels = torch::tensor({0, 0}, at::kLong);
  EXPECT_NEAR(cross_entropy(logits, labels, 2).item<double>(),
              (std::log(2.0) + std::log(4.0 / 3.0)) / 2, 1e-12);
}

TEST(Loss, AShorterBatchIsDividedByTheNominalSize) {
  const at::Tensor logits = torch::randn({3, 5}).requires_grad_();
  const at::Tensor labels = torch::tensor({1, 4, 0}, at::kLong);
  const at::Tensor full = cross_entropy(logits, labels, 3);
  const at::Tensor shorter = cross_entropy(logits, labels, 4);
  EXPECT_NEAR(shorter.item<double>(), full.item<double>() * 0.75, 1e-6);
  const at::Tensor full_gradient = torch::autograd::grad({full}, {logits})[0];
  const at::Tensor gradient = torch::autograd::grad({shorter}, {logits})[0];
  EXPECT_TRUE(at::allclose(gradient, full_gradient * 0.75));
}

}  // namespace
}  // namespace kiln
