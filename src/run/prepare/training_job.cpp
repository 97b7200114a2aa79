// Derives from a job's settings how many epochs it has and what each consists of.
#include <algorithm>
#include <memory>

#include "run/prepare/prepare.h"
#include "train/precision.h"

namespace kiln {

EpochPlan TrainingJob::epoch_plan(int epoch) const {
  const std::int64_t steps = config.optimization.steps;
  const std::int64_t before = steps_before(epoch);
  const bool trains = world.rank() < num_training_ranks();
  const std::int64_t max_steps = trains ? 0 : inputs.steps_per_epoch;  // no images end its epoch
  return {.epoch = epoch,
          .epochs_before = first_epochs(),
          .schedule = recipe.schedule,
          .step = {.batch_size = config.optimization.batch_size,
                   .batches_per_step = trains ? config.optimization.accumulate : 0,
                   .smallest_batch = inputs.smallest_batch,
                   .train_on_empty_batches = config.ranks.sync_batch_norm && world.size() > 1,
                   .loss = recipe.loss,
                   .clip_norm = recipe.clip_norm,
                   .precision = recipe.precision},
          .mix = recipe.mix,
          .rank = world.rank(),
          .num_ranks = num_training_ranks(),
          .max_steps = steps == 0 ? max_steps : std::min(steps - before, inputs.steps_per_epoch),
          .trace = trace ? &trace->steps() : nullptr};
}

DeviceUploader& TrainingJob::training_uploader(int epoch) {
  if (inputs.sizes.empty()) return *uploader;
  const ImageSize size = inputs.pixels_of(epoch).output;
  if (!uploader || uploader->size() != size)
    uploader = std::make_unique<DeviceUploader>(
        torch_device(device), size, config.optimization.batch_size, inputs.normalization);
  return *uploader;
}

std::size_t TrainingJob::num_valid_images() const {
  const std::size_t num_shards =
      config.data.has_valid_shard ? static_cast<std::size_t>(world.size()) : 1;
  return inputs.valid.samples.size() * num_shards;
}

int TrainingJob::asked_epochs() const {
  const OptimizationConfig& asked = config.optimization;
  if (uses_features) return 1;
  return asked.steps == 0 || asked.epochs_given ? asked.epochs : epochs_begun();
}

int TrainingJob::last_epoch() const {
  if (uses_features || config.optimization.steps == 0) return num_epochs();
  return std::min(num_epochs(), first_epochs() + epochs_begun());
}

int TrainingJob::epochs_begun() const {
  const std::int64_t steps = config.optimization.steps;
  return static_cast<int>((steps + inputs.steps_per_epoch - 1) / inputs.steps_per_epoch);
}

bool TrainingJob::is_done() const {
  return resume && resume->is_finished && resume->is_complete;
}

}  // namespace kiln
