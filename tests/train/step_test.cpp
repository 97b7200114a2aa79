// The step on one rank, with a network small enough to follow by hand.
#include "train/step.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <vector>

#include "train/small_model.h"

namespace kiln {
namespace {

// Hands out batches and remembers the phases.
class Batches : public StepContext {
 public:
  explicit Batches(std::vector<DeviceBatch> batches) : batches_(std::move(batches)) {}
  std::optional<DeviceBatch> next() override {
    if (next_ == batches_.size()) return std::nullopt;
    return batches_[next_++];
  }
  void enter(StepPhase phase) override { phases.push_back(phase); }

  std::vector<StepPhase> phases;

 private:
  std::vector<DeviceBatch> batches_;
  std::size_t next_ = 0;
};

DeviceBatch batch_of(int count, int seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  return {at::randn({count, 3, 4, 4}), at::arange(count, at::kLong) % 2};
}

DeviceBatch joined(const DeviceBatch& a, const DeviceBatch& b) {
  return {at::cat({a.images, b.images}), at::cat({a.labels, b.labels})};
}

class StepTest : public testing::Test {
 protected:
  std::unique_ptr<TrainState> new_state() const {
    return std::make_unique<TrainState>(std::make_unique<SmallModel>(), Recipe{}, BucketPlan{},
                                        *communicator_);
  }
  static at::Tensor weight(const TrainState& state) { return state.model->parameters().front(); }

  std::unique_ptr<Communicator> communicator_ = make_local_communicator();
};

TEST_F(StepTest, AccumulatedBatchesMakeTheStepOfTheirUnion) {
  const auto whole = new_state(), parts = new_state();
  const DeviceBatch a = batch_of(4, 1), b = batch_of(4, 2);
  Batches one({joined(a, b)}), two({a, b});
  EXPECT_TRUE(TrainStep(*whole, {.batch_size = 8}).run(one, 0.1));
  EXPECT_TRUE(TrainStep(*parts, {.batch_size = 4, .batches_per_step = 2}).run(two, 0.1));
  EXPECT_TRUE(at::allclose(weight(*whole), weight(*parts), 1e-12, 1e-12));
  EXPECT_NEAR(whole->epoch.metrics.totals().loss_sum, parts->epoch.metrics.totals().loss_sum, 1e-9);
  EXPECT_EQ(parts->epoch.steps, 1);
}

TEST_F(StepTest, EndsWithTheLastBatch) {
  const auto state = new_state();
  Batches batches({batch_of(2, 1)});
  TrainStep step(*state, {.batch_size = 2});
  EXPECT_TRUE(step.run(batches, 0.1));
  EXPECT_FALSE(step.run(batches, 0.1));
  EXPECT_EQ(state->epoch.steps, 1);
  EXPECT_EQ(batches.phases, (std::vector{StepPhase::kBackward, StepPhase::kCommunication,
                                         StepPhase::kOptimizer, StepPhase::kDone}));
}

TEST_F(StepTest, ABatchTooSmallChangesNothing) {
  const auto state = new_state();
  const at::Tensor before = weight(*state).detach().clone();
  Batches batches({batch_of(1, 1)});
  EXPECT_TRUE(TrainStep(*state, {.batch_size = 4, .smallest_batch = 2}).run(batches, 0.1));
  EXPECT_TRUE(at::equal(weight(*state), before));
  EXPECT_EQ(state->epoch.metrics.totals().count, 0);
}

TEST_F(StepTest, MissingImagesLeaveTheirShareOfTheGradientEmpty) {
  const auto full = new_state(), shorter = new_state();
  const DeviceBatch batch = batch_of(3, 1);
  Batches a({batch}), b({batch});
  const at::Tensor before = weight(*full).detach().clone();
  Recipe no_decay;
  TrainStep(*full, {.batch_size = 3}).run(a, 0.1);
  TrainStep(*shorter, {.batch_size = 4}).run(b, 0.1);
  const double decay = 0.1 * 1.9 * no_decay.optimizer.weight_decay;
  const at::Tensor full_change = weight(*full) - before + decay * before;
  const at::Tensor shorter_change = weight(*shorter) - before + decay * before;
  EXPECT_TRUE(at::allclose(shorter_change, full_change * 0.75, 1e-9, 1e-12));
}

TEST_F(StepTest, WeightedBatchesMakeTheStepOfTheirUnionToo) {
  const auto whole = new_state(), parts = new_state(), plain = new_state();
  const DeviceBatch a = batch_of(4, 1), b = batch_of(4, 2);
  Batches one({joined(a, b)}), two({a, b}), unweighted({joined(a, b)});
  const LossPlan loss{.class_weights = {0.25, 3}};
  EXPECT_TRUE(TrainStep(*whole, {.batch_size = 8, .loss = loss}).run(one, 0.1));
  EXPECT_TRUE(
      TrainStep(*parts, {.batch_size = 4, .batches_per_step = 2, .loss = loss}).run(two, 0.1));
  EXPECT_TRUE(TrainStep(*plain, {.batch_size = 8}).run(unweighted, 0.1));
  EXPECT_TRUE(at::allclose(weight(*whole), weight(*parts), 1e-12, 1e-12));
  EXPECT_FALSE(at::allclose(weight(*whole), weight(*plain), 1e-6, 1e-6));
  EXPECT_EQ(whole->epoch.metrics.totals().loss_sum, plain->epoch.metrics.totals().loss_sum);
}

}  // namespace
}  // namespace kiln
