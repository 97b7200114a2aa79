// Run by mpirun: steps with a parameter server, beside those of one process.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "parallel/rank_main.h"
#include "train/exchange/exchange.h"
#include "train/small_model.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

World* world = nullptr;

constexpr int kSteps = 6;
constexpr double kRate = 0.1;

// Batches of one worker, of which there is no last.
class Batches : public StepContext {
 public:
  explicit Batches(int worker) : worker_(worker) {}
  std::optional<DeviceBatch> next() override {
    at::manual_seed(static_cast<std::uint64_t>(100 * worker_ + next_++));
    return DeviceBatch{at::randn({4, 3, 4, 4}), at::arange(4, at::kLong) % 2};
  }

 private:
  int worker_, next_ = 0;
};

class ParameterServer : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<TrainState> new_state() const {
    Recipe recipe;
    recipe.optimizer.name = GetParam();
    return std::make_unique<TrainState>(std::make_unique<SmallModel>(), recipe,
                                        BucketPlan{.sums_ranks = false}, *communicator_);
  }
  static at::Tensor weight(const TrainState& state) { return state.model->parameters().front(); }

  std::unique_ptr<Exchange> servers(int num_servers, TrainState& state) const {
    const ExchangePlan plan{find_row(kKnownExchanges, "parameter-server"), num_servers};
    return make_exchange(plan, {.name = GetParam()}, state, *world, *communicator_);
  }

  // `count` more steps of this rank.
  static void train(TrainState& state, Batches& batches, int num_workers, int count) {
    const bool serves = world->rank() >= num_workers;
    TrainStep step(state, {.batch_size = 4, .batches_per_step = serves ? 0 : 1, .clip_norm = 1});
    for (int i = 0; i < count; ++i) EXPECT_TRUE(step.run(batches, kRate));
  }

  static void expect_equal_on_all_ranks(const TrainState& state) {
    std::vector<NamedTensor> all = state.optimizer->state();
    all.push_back({"weight", weight(state)});
    for (const NamedTensor& item : all) {
      const at::Tensor values = item.tensor.detach().to(at::kDouble).contiguous();
      const double* begin = values.const_data_ptr<double>();
      const auto gathered = world->gather(std::vector<double>(begin, begin + values.numel()));
      for (const std::vector<double>& of_rank : gathered) EXPECT_EQ(of_rank, gathered[0]);
      EXPECT_NE(gathered[0], std::vector<double>(gathered[0].size())) << item.name;
    }
  }

  std::unique_ptr<Communicator> communicator_ = make_mpi_communicator(*world->mpi());
};

// With more servers than tensors, some hold none.
TEST_P(ParameterServer, OneWorkerTrainsAsOneProcess) {
  const auto ours = new_state(), alone = new_state();
  Batches batches(0), same(0);
  ours->exchange = servers(world->size() - 1, *ours);
  train(*ours, batches, 1, kSteps / 2);
  ours->exchange->gather_state();
  expect_equal_on_all_ranks(*ours);
  ours->exchange = servers(world->size() - 1, *ours);  // as after a checkpoint
  train(*ours, batches, 1, kSteps / 2);
  ours->exchange->gather_state();
  TrainStep step(*alone, {.batch_size = 4, .clip_norm = 1});
  for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(step.run(same, kRate));
  EXPECT_TRUE(at::equal(weight(*ours), weight(*alone)));
  expect_equal_on_all_ranks(*ours);
}

TEST_P(ParameterServer, ManyWorkersLowerTheLossAndEndWithTheSameWeights) {
  const int num_workers = world->size() - 1;
  const auto state = new_state();
  const DeviceBatch seen = *Batches(0).next();
  const auto loss = [&] {
    const at::NoGradGuard no_grad;
    return at::cross_entropy_loss(state->model->forward(seen.images), seen.labels).item<double>();
  };
  const double before = loss();
  state->exchange = servers(1, *state);
  for (int i = 0; i < 20; ++i) {
    Batches again(world->rank());
    train(*state, again, num_workers, 1);
  }
  state->exchange->gather_state();
  expect_equal_on_all_ranks(*state);
  EXPECT_LT(loss(), before);
}

TEST_P(ParameterServer, TellsWhoHoldsWhat) {
  const auto state = new_state();
  const auto plan = servers(1, *state)->plan();
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[0].second, formatted("%d of %d ranks train, at most 4 steps apart; the learning "
                                      "rate is divided by each gradient's staleness",
                                      world->size() - 1, world->size()));
  EXPECT_EQ(plan[1].second, world->name_of(world->size() - 1) + ": 1 tensors, 0.00 MB");
  EXPECT_TRUE(new_state()->exchange->plan().empty());
  world->barrier();
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ParameterServer, testing::Values("sgd", "adamw"));

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  at::set_num_threads(1);
  kiln::Log log;
  kiln::World the_world;
  if (!kiln::join_ranks(argc, argv, 120, log, the_world)) return 2;
  kiln::world = &the_world;
  return the_world.leave(RUN_ALL_TESTS());
}
