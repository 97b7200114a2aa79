// The autograd function of fused norms on a device, the stand-in in CI. The kernels alone are in
// test_norm_kernels.py.
#include "model/operators/fused_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "parallel/device/device.h"

namespace kiln {
namespace {

constexpr std::int64_t kChannels = 24;

class FusedNormTest : public testing::Test {
 protected:
  // Before any other call into LibTorch.
  static void SetUpTestSuite() { gpu = choose_device(DeviceChoice::kAuto); }

  void SetUp() override {
    if (!gpu.is_cuda) GTEST_SKIP() << "needs a GPU: " << gpu.description;
  }

  static at::TensorOptions options(at::ScalarType type) {
    return at::device({at::kCUDA, static_cast<at::DeviceIndex>(gpu.index)}).dtype(type);
  }

  static at::Tensor map(std::int64_t images, std::int64_t channels = kChannels) {
    return at::randn({images, channels, 5, 7}, at::kDouble)
        .contiguous(at::MemoryFormat::ChannelsLast)
        .to(options(at::kDouble))
        .requires_grad_();
  }

  static NormParameters parameters(at::ScalarType type, bool uses_batch, BatchRanks ranks = {}) {
    const auto all = [&](double value) { return at::full({kChannels}, value, options(type)); };
    return {all(1.25).requires_grad_(),
            all(0.5).requires_grad_(),
            {all(0.25), all(0.75), /*momentum=*/0.1},
            /*epsilon=*/1e-5,
            uses_batch,
            std::move(ranks)};
  }

  static void expect_equal(const at::Tensor& found, const at::Tensor& right) {
    const at::Tensor exact = right.cpu();
    EXPECT_LT((found.cpu() - exact).abs().max().item<double>(),
              1e-12 * exact.abs().max().item<double>() + 1e-14);
  }

  static Device gpu;
};

Device FusedNormTest::gpu;

TEST_F(FusedNormTest, IsLibTorchsInEveryType) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16})
    EXPECT_EQ(fused_norm_fault({at::kCUDA, static_cast<at::DeviceIndex>(gpu.index)}, type), "");
}

TEST_F(FusedNormTest, TellsWhatIsWrongWithATypeThatItLacks) {
  EXPECT_NE(fused_norm_fault({at::kCUDA, static_cast<at::DeviceIndex>(gpu.index)}, at::kInt), "");
}

TEST_F(FusedNormTest, TakesWhatItsKernelsHave) {
  const NormParameters of = parameters(at::kFloat, /*uses_batch=*/true);
  const auto takes = [&](std::int64_t channels, at::ScalarType type) {
    return can_fuse_norm(map(2, channels).to(type), of);
  };
  EXPECT_TRUE(takes(4, at::kFloat));
  EXPECT_TRUE(takes(8, at::kBFloat16));
  EXPECT_FALSE(takes(6, at::kFloat));
  EXPECT_FALSE(takes(12, at::kHalf));
  EXPECT_FALSE(takes(8, at::kDouble)) << "with weights of float32";
  EXPECT_FALSE(can_fuse_norm(map(0).to(at::kFloat), of));
  EXPECT_FALSE(can_fuse_norm(map(2).to(at::kFloat).cpu(), of));
}

TEST_F(FusedNormTest, GradientsAreLibTorchsWithRunningStatisticsAndThoseOfTheBatch) {
  for (const bool uses_batch : {true, false}) {
    const at::Tensor x = map(3), same = x.detach().clone().requires_grad_(), dy = map(3).detach();
    const NormParameters of = parameters(at::kDouble, uses_batch),
                         others = parameters(at::kDouble, uses_batch);
    const at::Tensor y = fused_norm(x, of, /*has_relu=*/true);
    y.backward(dy);
    const at::Tensor right = at::batch_norm(same, others.weight, others.bias, others.running.mean,
                                            others.running.variance, uses_batch, 0.1, 1e-5, false)
                                 .relu();
    right.backward(dy);
    expect_equal(y.detach(), right.detach());
    expect_equal(x.grad(), same.grad());
    expect_equal(of.weight.grad(), others.weight.grad());
    expect_equal(of.bias.grad(), others.bias.grad());
    expect_equal(of.running.variance, others.running.variance);
  }
}

// Two ranks with the same images are as one.
TEST_F(FusedNormTest, RanksShareStatisticsAndSums) {
  int num_sums = 0;
  const BatchRanks twins{0, 2, [&](at::Tensor& sums) {
                           sums.mul_(2);
                           ++num_sums;
                         }};
  const at::Tensor x = map(3), same = x.detach().clone().requires_grad_(), dy = map(3).detach();
  const NormParameters of = parameters(at::kDouble, true, twins),
                       alone = parameters(at::kDouble, true);
  const at::Tensor added = map(3).detach();
  const at::Tensor y = fused_norm(x, of, true, added), right = fused_norm(same, alone, true, added);
  y.backward(dy);
  right.backward(dy);
  EXPECT_EQ(num_sums, 2);
  expect_equal(y.detach(), right.detach());
  expect_equal(x.grad(), same.grad());
  expect_equal(of.weight.grad(), alone.weight.grad());
  expect_equal(of.running.mean, alone.running.mean);
}

TEST_F(FusedNormTest, ARankWithoutImagesTakesPart) {
  const BatchRanks other{0, 2, [](at::Tensor& sums) { sums.add_(1); }};
  const NormParameters of = parameters(at::kDouble, true, other);
  const at::Tensor x = map(0);
  ASSERT_TRUE(can_fuse_norm(x, of));
  const at::Tensor y = fused_norm(x, of, true);
  y.backward(map(0).detach());
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  EXPECT_EQ(of.weight.grad().abs().max().item<double>(), 0);
  EXPECT_NEAR(of.running.mean[0].item<double>(), 0.9 * 0.25 + 0.1, 1e-12);
}

}  // namespace
}  // namespace kiln
