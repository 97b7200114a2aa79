#include "train/loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "base/error.h"

namespace kiln {
namespace {

TEST(Loss, IsTheSumOfCrossEntropies) {
  const at::Tensor logits =
      torch::tensor({{0.0, 0.0}, {std::log(3.0), 0.0}}, at::kDouble).requires_grad_();
  const at::Tensor labels = torch::tensor({0, 0}, at::kLong);
  const double expected = std::log(2.0) + std::log(4.0 / 3.0);
  const at::Tensor training = find_training_loss({})(logits, labels);
  EXPECT_NEAR(training.item<double>(), expected, 1e-12);
  EXPECT_TRUE(training.requires_grad());
  const at::Tensor reported = reported_loss(logits, labels);
  EXPECT_NEAR(reported.item<double>(), expected, 1e-12);
  EXPECT_FALSE(reported.requires_grad());
}

TEST(Loss, RefusesANameThatIsInNoRow) {
  EXPECT_THROW(find_training_loss({"focal"}), InternalError);
}

}  // namespace
}  // namespace kiln
