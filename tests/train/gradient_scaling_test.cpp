#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>

#include <cmath>
#include <limits>
#include <vector>

#include "train/optimizer/optimizer.h"
#include "train/precision.h"
#include "train/step.h"

namespace kiln {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LossScaler, DividesGradientsByTheScale) {
  LossScaler scaler(at::kCPU);
  const at::Tensor a = at::full({3}, 65536.0F), b = at::full({2, 2}, -32768.0F);
  EXPECT_EQ(scaler.unscale({a, b}).item<float>(), 0);
  EXPECT_TRUE(at::equal(a, at::ones({3})));
  EXPECT_TRUE(at::equal(b, at::full({2, 2}, -0.5F)));
  EXPECT_EQ(scaler.values().skipped_steps, 0);
  EXPECT_EQ(scaler.values().steps_since_overflow, 1);
}

TEST(LossScaler, HalvesTheScaleAtOverflow) {
  LossScaler scaler(at::kCPU);
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    scaler.set({.scale = 1024, .steps_since_overflow = 5, .skipped_steps = 2});
    EXPECT_EQ(scaler.unscale({at::ones({4}), at::tensor({1.0F, bad})}).item<float>(), 1);
    EXPECT_EQ(scaler.values().scale, 512);
    EXPECT_EQ(scaler.values().steps_since_overflow, 0);
    EXPECT_EQ(scaler.values().skipped_steps, 3);
  }
  EXPECT_EQ(scaler.unscale({at::ones({4})}).item<float>(), 0);
  scaler.forget_skipped_steps();
  EXPECT_EQ(scaler.values().skipped_steps, 0);
}

TEST(LossScaler, DoublesTheScaleAfterManyStepsWithoutOverflow) {
  LossScaler scaler(at::kCPU);
  scaler.set({.scale = 1024, .steps_since_overflow = 1998, .skipped_steps = 0});
  scaler.unscale({at::ones({1})});
  EXPECT_EQ(scaler.values().scale, 1024);
  scaler.unscale({at::ones({1})});
  EXPECT_EQ(scaler.values().scale, 2048);
  EXPECT_EQ(scaler.values().steps_since_overflow, 0);
}

// A convolution and a linear layer in float32: float16 is slow on CPUs.
class TinyModel : public ImageModel {
 public:
  TinyModel() {
    at::manual_seed(6);
    kernel_ = (at::randn({4, 3, 3, 3}) * 0.2).requires_grad_();
    weight_ = (at::randn({3, 4}) * 0.5).requires_grad_();
  }
  at::Tensor pooled_features(const at::Tensor& images) override {
    return at::linear(at::conv2d(images, kernel_).relu().mean({2, 3}), weight_);
  }
  at::Tensor class_maps(const at::Tensor&, const std::vector<int>&) override { return {}; }
  void train(bool) override {}
  at::Tensor logits_of(const at::Tensor& features) override { return features; }
  void freeze(Freeze) override {}
  std::vector<int> stages() const override { return {0, 1}; }
  std::vector<NamedTensor> head() const override { return {{"weight", weight_}}; }
  std::vector<at::Tensor> parameters() const override { return {kernel_, weight_}; }
  std::vector<NamedTensor> named_parameters() const override {
    return {{"kernel", kernel_}, {"weight", weight_}};
  }
  std::vector<NamedTensor> state() const override { return named_parameters(); }
  void prepare(const at::Device&) override {}
  void to_float64() override {}
  void synchronize_batch_norm(const BatchRanks&) override {}
  void fold_batch_norm() override {}
  Kept kept() const override { return {}; }

 private:
  at::Tensor kernel_, weight_;
};

class OneBatch : public StepContext {
 public:
  explicit OneBatch(const at::Tensor& images) : batch_{images, at::tensor({0L, 1L, 2L, 0L})} {}
  std::optional<DeviceBatch> next() override { return batch_; }

 private:
  DeviceBatch batch_;
};

class Float16Step : public testing::Test {
 protected:
  Float16Step() {
    at::manual_seed(5);
    images_ = at::randn({4, 3, 8, 8});
    state_ = new_state(Precision::kFp16);
  }

  std::unique_ptr<TrainState> new_state(Precision precision) const {
    Recipe recipe;
    recipe.precision = precision;
    return std::make_unique<TrainState>(std::make_unique<TinyModel>(), recipe, BucketPlan{},
                                        *communicator_);
  }

  void step(TrainState& state, Precision precision, const at::Tensor& images) const {
    OneBatch batch(images);
    TrainStep(state, {.batch_size = 4, .precision = precision}).run(batch, 0.01);
  }
  void step(const at::Tensor& images) const { step(*state_, Precision::kFp16, images); }

  // Weights and momenta.
  std::vector<at::Tensor> trained() const {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& weight : state_->model->parameters())
      tensors.push_back(weight.detach().clone());
    for (const NamedTensor& item : state_->optimizer->state())
      tensors.push_back(item.tensor.clone());
    return tensors;
  }

  static bool equal(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
    for (std::size_t i = 0; i < one.size(); ++i)
      if (!at::equal(one[i], other[i])) return false;
    return one.size() == other.size();
  }

  std::unique_ptr<Communicator> communicator_ = make_local_communicator();
  at::Tensor images_;
  std::unique_ptr<TrainState> state_;
};

TEST_F(Float16Step, OverflowLeavesWeightsAndMomentumAndCounts) {
  state_->scaler->set({.scale = 1024});
  step(images_);
  const std::vector<at::Tensor> before = trained();
  state_->scaler->set({.scale = 0x1p100});
  step(images_);
  EXPECT_TRUE(equal(trained(), before));
  EXPECT_EQ(state_->epoch.steps, 2);
  EXPECT_EQ(state_->scaler->values().skipped_steps, 1);
  EXPECT_EQ(state_->epoch.metrics.first_nonfinite_step(), 0);  // the loss itself is finite
  state_->scaler->set({.scale = 1024});
  step(images_);
  EXPECT_FALSE(equal(trained(), before));
  state_->begin_epoch();
  EXPECT_EQ(state_->scaler->values().skipped_steps, 0);
}

TEST_F(Float16Step, ALossThatIsNotFiniteIsNoticed) {
  const std::vector<at::Tensor> before = trained();
  step(images_ * kInfinity);
  EXPECT_EQ(state_->epoch.metrics.first_nonfinite_step(), 1);
  EXPECT_TRUE(equal(trained(), before));
}

TEST_F(Float16Step, TrainsAsFloat32Does) {
  const auto exact = new_state(Precision::kFp32);
  EXPECT_FALSE(exact->scaler.has_value());
  state_->scaler->set({.scale = 1024});
  for (int i = 0; i < 3; ++i) {
    step(images_);
    step(*exact, Precision::kFp32, images_);
    EXPECT_NEAR(state_->epoch.metrics.read().batch.loss(), exact->epoch.metrics.read().batch.loss(),
                2e-3)
        << i;
  }
  EXPECT_EQ(state_->scaler->values().skipped_steps, 0);
}

TEST_F(Float16Step, GoesOnFromWhatWasRead) {
  state_->scaler->set({.scale = 0x1p100});
  step(images_);
  const LossScale values = state_->scaler->values();
  const auto other = new_state(Precision::kFp16);
  other->scaler->set(values);
  EXPECT_EQ(other->scaler->values().scale, 0x1p99);
  EXPECT_EQ(other->scaler->values().skipped_steps, 1);
}

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
