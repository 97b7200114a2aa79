#include "train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parallel/gradient_buckets.h"

namespace kiln {
namespace {

// LibTorch's own SGD, a tensor at a time, is the reference.
TEST(Sgd, EqualsTheFrameworksNesterov) {
  torch::manual_seed(3);
  const at::Tensor start = torch::randn({4, 3, 3, 3});
  at::Tensor ours =
      start.clone().contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  at::Tensor theirs = start.clone().set_requires_grad(true);
  GradientBuckets gradients({ours}, {}, nullptr);
  Sgd optimizer({ours}, gradients.gradients());
  torch::optim::SGD reference(
      std::vector<at::Tensor>{theirs},
      torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(1e-4));
  const at::Tensor target = torch::randn({4, 3, 3, 3});
  for (int step = 0; step < 5; ++step) {
    (ours - target).pow(2).sum().backward();
    optimizer.step(0.1);
    gradients.zero();
    (theirs - target).pow(2).sum().backward();
    reference.step();
    reference.zero_grad();
  }
  EXPECT_TRUE(torch::allclose(ours, theirs, 1e-5, 1e-6));
}

}  // namespace
}  // namespace kiln
