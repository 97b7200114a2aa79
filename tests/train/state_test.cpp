// A state that is read and set goes on as the one that it was read from: what a checkpoint relies
// on.
#include "train/state.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "train/small_model.h"
#include "train/step.h"

namespace kiln {
namespace {

class SameBatch : public StepContext {
 public:
  explicit SameBatch(int seed) {
    at::manual_seed(static_cast<std::uint64_t>(seed));
    batch_ = {at::randn({4, 3, 4, 4}), at::arange(4, at::kLong) % 2};
  }
  std::optional<DeviceBatch> next() override { return batch_; }

 private:
  DeviceBatch batch_;
};

void train(TrainState& state, int first, int last) {
  TrainStep step(state, {.batch_size = 4});
  for (int i = first; i <= last; ++i) {
    SameBatch batch(i);
    step.run(batch, 0.05);
  }
}

void copy(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) to[i].tensor.copy_(from[i].tensor);
}

TEST(TrainState, GoesOnFromWhatWasRead) {
  const auto communicator = make_local_communicator();
  const auto fresh = [&] {
    return std::make_unique<TrainState>(std::make_unique<SmallModel>(), Recipe{}, BucketPlan{},
                                        *communicator);
  };
  const auto through = fresh(), first = fresh(), second = fresh();
  train(*through, 1, 6);
  train(*first, 1, 3);
  copy(first->model->state(), second->model->state());
  copy(first->optimizer->state(), second->optimizer->state());
  second->progress = first->progress;
  second->epoch.steps = first->epoch.steps;
  second->epoch.metrics.set(first->epoch.metrics.totals());
  train(*second, 4, 6);
  EXPECT_TRUE(at::equal(through->model->parameters()[0], second->model->parameters()[0]));
  EXPECT_EQ(through->epoch.metrics.totals().loss_sum, second->epoch.metrics.totals().loss_sum);
  EXPECT_EQ(through->epoch.metrics.totals().count, second->epoch.metrics.totals().count);
  EXPECT_EQ(second->epoch.steps, 6);
}

TEST(TrainState, CopiedWeightsStayAsTheyWere) {
  SmallModel model;
  const std::vector<NamedTensor> copies = copied_weights(model);
  const at::Tensor before = model.parameters()[0].detach().clone();
  {
    const at::NoGradGuard no_grad;
    model.parameters()[0].add_(1);
  }
  EXPECT_TRUE(at::equal(copies[0].tensor, before));
}

}  // namespace
}  // namespace kiln
