// memory_efficient really recomputes: less memory at the peak, the same gradients, statistics
// updated once.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "model/image_model.h"
#include "model/networks.h"
#include "model/operators/autocast.h"

namespace kiln {
namespace {

// Hears of every CPU allocation of LibTorch while a DebugInfoGuard holds it.
class PeakMeter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    current_ += bytes;
    peak_ = std::max(peak_, current_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t current_ = 0;
  std::int64_t peak_ = 0;
};

struct Step {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
  std::vector<NamedTensor> state;  // after the step
  std::int64_t peak_bytes = 0;
};

// Large enough that activations outweigh the gradients of the parameters, which both ways need.
Step run_step(bool memory_efficient) {
  at::manual_seed(5);
  const auto model = make_image_model(
      {.model_name = "densenet121", .num_classes = 4, .memory_efficient = memory_efficient});
  model->prepare(at::kCPU);
  model->train(true);
  const at::Tensor images = at::randn({8, 3, 96, 96}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor labels = at::tensor({0, 1, 2, 3, 0, 1, 2, 3}, at::kLong);
  Step step;
  const auto meter = std::make_shared<PeakMeter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    const at::Tensor loss = at::cross_entropy_loss(model->forward(images), labels);
    loss.backward();
    step.loss = loss.detach();
  }
  step.peak_bytes = meter->peak();
  for (const at::Tensor& parameter : model->parameters())
    step.gradients.push_back(parameter.grad());
  step.state = model->state();
  return step;
}

class MemoryEfficient : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    usual_ = run_step(false);
    efficient_ = run_step(true);
  }
  static void TearDownTestSuite() { usual_ = efficient_ = {}; }
  static inline Step usual_, efficient_;
};

TEST_F(MemoryEfficient, NeedsLessMemory) {
  EXPECT_GT(usual_.peak_bytes, 0);
  EXPECT_LT(efficient_.peak_bytes, usual_.peak_bytes * 7 / 10)
      << efficient_.peak_bytes << " against " << usual_.peak_bytes;
  RecordProperty("usual", std::to_string(usual_.peak_bytes));
  RecordProperty("efficient", std::to_string(efficient_.peak_bytes));
}

TEST_F(MemoryEfficient, GivesEqualGradients) {
  EXPECT_TRUE(at::equal(usual_.loss, efficient_.loss));
  ASSERT_EQ(usual_.gradients.size(), efficient_.gradients.size());
  for (std::size_t i = 0; i < usual_.gradients.size(); ++i) {
    ASSERT_TRUE(efficient_.gradients[i].defined()) << i;
    const double scale = usual_.gradients[i].abs().max().item<double>();
    const double difference =
        (usual_.gradients[i] - efficient_.gradients[i]).abs().max().item<double>();
    EXPECT_LE(difference, 1e-5 * scale) << i;
  }
}

TEST_F(MemoryEfficient, UpdatesStatisticsOnce) {
  for (std::size_t i = 0; i < usual_.state.size(); ++i) {
    const NamedTensor& expected = usual_.state[i];
    EXPECT_TRUE(at::equal(expected.tensor, efficient_.state[i].tensor)) << expected.name;
    if (expected.name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(efficient_.state[i].tensor.item<std::int64_t>(), 1) << expected.name;
    }
  }
}

// Backward runs where no autocast is in effect.
TEST(MemoryEfficientInMixedPrecision, GivesEqualGradients) {
  std::vector<at::Tensor> gradients[2];
  for (const bool memory_efficient : {false, true}) {
    at::manual_seed(5);
    const DenseNetShape shape{
        .growth_rate = 8, .num_layers = {2, 1, 1, 1}, .num_init_features = 16};
    const auto model = image_model_of(make_densenet(shape, memory_efficient, 4),
                                      {.model_name = "", .num_classes = 4});
    const at::Tensor images = at::randn({2, 3, 32, 32});
    at::Tensor logits;
    {
      const Autocast autocast(at::kCPU, at::kBFloat16);
      logits = model->forward(images);
    }
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    logits.to(at::kFloat).square().sum().backward();
    for (const at::Tensor& parameter : model->parameters())
      gradients[memory_efficient ? 1 : 0].push_back(parameter.grad());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    ASSERT_TRUE(gradients[1][i].defined()) << i;
    EXPECT_EQ(gradients[1][i].scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i])) << i;
  }
}

TEST_F(MemoryEfficient, EvaluatesAndTrainsWithoutGradients) {
  const auto model =
      make_image_model({.model_name = "densenet121", .num_classes = 4, .memory_efficient = true});
  const at::NoGradGuard no_grad;
  const at::Tensor images = at::randn({2, 3, 32, 32});
  for (const bool training : {true, false}) {
    model->train(training);
    EXPECT_FALSE(model->forward(images).requires_grad());
  }
}

}  // namespace
}  // namespace kiln
