#include "run/epoch_end.h"

#include "base/text.h"
#include "run/epoch_check.h"
#include "run/vote.h"
#include "train/replicas.h"

namespace kiln {
namespace {

constexpr double kManySkipped = 0.05;  // share of the steps of an epoch

}  // namespace

EpochRecord end_training(World& world, TrainEpoch& training) {
  const int first_nonfinite_step = training.first_nonfinite_step();
  if (vote(world, {.has_diverged = first_nonfinite_step != 0}).has_diverged)
    throw_diverged(world, training.timing(), first_nonfinite_step);
  return training.finish();
}

void sum_over_ranks(const TrainingJob& job, TrainState& state, EpochRecord& record) {
  World& world = job.world;
  set_summed_numbers(world.sum(summed_numbers(record)), record);
  state.exchange->gather_state();
  if (!state.epoch.statistics_averaged && job.recipe.freeze == Freeze::kNone) {
    const int num_ranks = job.num_training_ranks();
    average_statistics(*state.model, *job.communicator, world, num_ranks);
    if (state.averages)
      average_statistics(state.averages->state(), *job.communicator, world, num_ranks);
  }
  state.epoch.statistics_averaged = true;
  world.agree([&] { require_equal_replicas(*state.model, world); });
}

void warn_of_skipped_steps(const EpochRecord& record, World& world, Log& log) {
  const int skipped = record.skipped_steps.value_or(0);
  if (!world.leads() || skipped <= kManySkipped * record.num_steps) return;
  log.warning(formatted(
      "%d of the %d steps of epoch %d were skipped, because gradients overflowed float16. Use "
      "--precision bf16 or fp32, or a lower --learning-rate, if this continues.",
      skipped, record.num_steps, record.epoch));
}

}  // namespace kiln
