#include "train/optimizer/clip_norm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>

#include <vector>

namespace kiln {
namespace {

// LibTorch's own clip_grad_norm_ is the reference.
TEST(ClipNorm, EqualsTheFrameworks) {
  for (const double most : {0.5, 1000.0}) {
    at::manual_seed(3);
    const std::vector<at::Tensor> ours = {at::randn({40}), at::randn({7})};
    std::vector<at::Tensor> theirs;
    for (const at::Tensor& gradient : ours) {
      theirs.push_back(at::zeros_like(gradient).set_requires_grad(true));
      theirs.back().mutable_grad() = gradient.clone();
    }
    torch::nn::utils::clip_grad_norm_(theirs, most);
    clip_norm(ours, most);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i], theirs[i].grad(), 1e-6, 1e-7)) << most;
  }
}

TEST(ClipNorm, LeavesASmallGradientToTheBit) {
  const at::Tensor gradient = at::tensor({0.1F, -0.2F, 0.0F});
  const at::Tensor before = gradient.clone();
  clip_norm({gradient}, 1);
  EXPECT_TRUE(at::equal(gradient, before));
}

}  // namespace
}  // namespace kiln
