#include "train/precision.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/image_model.h"
#include "model/operators/autocast.h"

namespace kiln {
namespace {

constexpr ComputeUnits kCpu, kCpuWithBf16 = {.cpu_has_bf16 = true};
constexpr ComputeUnits kTuring = {.is_cuda = true, .capability = 75};
constexpr ComputeUnits kAmpere = {.is_cuda = true, .capability = 80};
constexpr ComputeUnits kHopper = {.is_cuda = true, .capability = 90};

TEST(ChoosePrecision, AutoGoesByTheUnits) {
  const auto automatic = [](const ComputeUnits& units) {
    const PrecisionChoice choice = choose_precision(std::nullopt, units);
    EXPECT_TRUE(choice.reason.starts_with("auto: ")) << choice.reason;
    EXPECT_EQ(choice.warning, "");
    return choice.precision;
  };
  EXPECT_EQ(automatic(kCpu), Precision::kFp32);
  EXPECT_EQ(automatic(kCpuWithBf16), Precision::kBf16);
  EXPECT_EQ(automatic(kTuring), Precision::kFp16);
  EXPECT_EQ(automatic(kAmpere), Precision::kBf16);
  EXPECT_EQ(automatic(kHopper), Precision::kBf16);
}

// As measured for every family (docs/performance.md, "bfloat16 by network").
TEST(ChoosePrecision, AutoOnCpusGoesByTheSizeOfTheImages) {
  const auto automatic = [](const ComputeUnits& units, int side) {
    return choose_precision(std::nullopt, units, side).precision;
  };
  EXPECT_EQ(automatic(kCpuWithBf16, 127), Precision::kFp32);
  for (const int side : {128, 224, 2048, 0}) {  // 0: inference
    EXPECT_EQ(automatic(kCpuWithBf16, side), Precision::kBf16);
    EXPECT_EQ(automatic(kCpu, side), Precision::kFp32);
  }
  EXPECT_EQ(automatic(kHopper, 32), Precision::kBf16);
  EXPECT_EQ(choose_precision(Precision::kBf16, kCpuWithBf16, 32).precision, Precision::kBf16);
}

TEST(ChoosePrecision, RanksAgreeOnTheLeast) {
  EXPECT_LT(Precision::kFp32, Precision::kFp16);
  EXPECT_LT(Precision::kFp16, Precision::kBf16);
}

TEST(ChoosePrecision, TakesWhatWasAskedFor) {
  for (const ComputeUnits& units : {kCpu, kCpuWithBf16, kTuring, kHopper})
    for (const Precision asked : {Precision::kFp32, Precision::kBf16})
      EXPECT_EQ(choose_precision(asked, units, 32).precision, asked);
  EXPECT_EQ(choose_precision(Precision::kFp16, kTuring, 32).precision, Precision::kFp16);
  EXPECT_EQ(choose_precision(Precision::kTf32, kAmpere, 32).precision, Precision::kTf32);
}

TEST(ChoosePrecision, SaysWhereFloat32HasTf32InIt) {
  const auto says_tf32 = [](const ComputeUnits& units) {
    return choose_precision(Precision::kFp32, units, 32).reason.find("TF32") != std::string::npos;
  };
  EXPECT_TRUE(says_tf32(kHopper));
  EXPECT_FALSE(says_tf32(kTuring));
  EXPECT_FALSE(says_tf32(kCpu));
}

// With PYTORCH_TUNABLEOP_ENABLED LibTorch asks for the older of its two flags, too.
TEST(SetTf32, SetsBothOfLibTorchsFlags) {
  at::Context& context = at::globalContext();
  use_precision(Precision::kFp32);
  EXPECT_FALSE(context.allowTF32CuBLAS());
  use_precision(Precision::kTf32);
  EXPECT_TRUE(context.allowTF32CuBLAS());
  EXPECT_EQ(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL),
            at::Float32Precision::TF32);
  context.setAllowTF32CuBLAS(false);
}

TEST(ChoosePrecision, WarnsOfEmulation) {
  EXPECT_NE(choose_precision(Precision::kBf16, kCpu, 32).warning, "");
  EXPECT_NE(choose_precision(Precision::kBf16, kTuring, 32).warning, "");
  EXPECT_EQ(choose_precision(Precision::kBf16, kCpuWithBf16, 32).warning, "");
  EXPECT_EQ(choose_precision(Precision::kBf16, kHopper, 32).warning, "");
}

TEST(ChoosePrecision, RefusesWhatTheUnitsCannotDo) {
  const auto refused = [](Precision asked, const ComputeUnits& units) {
    try {
      choose_precision(asked, units, 32);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUserError);
      EXPECT_NE(error.message().find("--precision"), std::string::npos);
      return true;
    }
  };
  EXPECT_TRUE(refused(Precision::kFp16, kCpu));
  EXPECT_TRUE(refused(Precision::kFp16, kCpuWithBf16));
  EXPECT_TRUE(refused(Precision::kTf32, kCpu));
  EXPECT_TRUE(refused(Precision::kTf32, kTuring));
}

TEST(Autocast, RestoresWhatWasBefore) {
  const auto now = [] { return Autocast::type_on(at::kCPU); };
  EXPECT_EQ(now(), at::kFloat);
  {
    const Autocast outer(at::kCPU, at::kBFloat16);
    EXPECT_EQ(now(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, at::kHalf);
      EXPECT_EQ(now(), at::kHalf);
    }
    EXPECT_EQ(now(), at::kBFloat16);
    const Autocast none(at::kCPU, at::kFloat);
    EXPECT_EQ(now(), at::kBFloat16);
  }
  EXPECT_EQ(now(), at::kFloat);
}

// Casts of weights that an optimizer has changed since are made anew.
TEST(Autocast, KeepsNoWeights) {
  const at::Tensor weight = at::ones({2, 2}).requires_grad_(), x = at::ones({1, 2});
  const auto product = [&] {
    const Autocast autocast(at::kCPU, at::kBFloat16);
    return at::linear(x, weight)[0][0].item<float>();
  };
  EXPECT_EQ(product(), 2);
  {
    const at::NoGradGuard no_grad;
    weight.mul_(3);
  }
  EXPECT_EQ(product(), 6);
}

class ForwardTest : public testing::Test {
 protected:
  ForwardTest() {
    at::manual_seed(3);
    model_ = make_image_model({.model_name = "resnet18", .num_classes = 5});
    model_->prepare(at::kCPU);
    images_ = at::randn({4, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  }

  std::unique_ptr<ImageModel> model_;
  at::Tensor images_;
};

TEST_F(ForwardTest, Fp32IsThePlainForwardPass) {
  model_->train(false);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(forward(*model_, images_, Precision::kFp32), model_->forward(images_)));
  EXPECT_TRUE(at::equal(forward(*model_, images_, Precision::kTf32), model_->forward(images_)));
}

TEST_F(ForwardTest, MixedPrecisionIsNearFloat32) {
  model_->train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor exact = model_->forward(images_);
  const double largest = exact.abs().max().item<double>();
  for (const auto& [precision, share] :
       {std::pair(Precision::kBf16, 0.03), {Precision::kFp16, 0.004}}) {
    const at::Tensor logits = forward(*model_, images_, precision);
    EXPECT_EQ(logits.scalar_type(), at::kFloat);
    const double difference = (logits - exact).abs().max().item<double>();
    EXPECT_GT(difference, 0);
    EXPECT_LT(difference, share * largest) << precision_name(precision);
  }
}

TEST_F(ForwardTest, MixedPrecisionLeavesGradientsAndStatisticsInFloat32) {
  model_->train(true);
  forward(*model_, images_, Precision::kBf16).sum().backward();
  for (const NamedTensor& item : model_->state())
    if (item.tensor.is_floating_point()) {
      EXPECT_EQ(item.tensor.scalar_type(), at::kFloat) << item.name;
      EXPECT_TRUE(item.tensor.isfinite().all().item<bool>()) << item.name;
    }
  for (const at::Tensor& parameter : model_->parameters()) {
    ASSERT_TRUE(parameter.grad().defined());
    EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
  }
  EXPECT_EQ(Autocast::type_on(at::kCPU), at::kFloat);
}

}  // namespace
}  // namespace kiln
