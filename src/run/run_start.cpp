#include "run/run_start.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "run/checkpoint/resume.h"
#include "run/prepare/choices.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/run_plan.h"

namespace kiln {

void begin_record(TrainingJob& job, const TrainState& state, RunLogger& log) {
  log.repeat_with([&job] { return repeat_text(job.config, job.choices); });
  const RunStart start = describe_run(job, state);
  std::vector<std::string> warnings = plan_warnings(job);
  if (!job.resume) return log.start(start, warnings);
  const SavedRun& saved = job.resume->run;
  if (std::string lost = why_not_bit_equal(job); !lost.empty()) warnings.push_back(std::move(lost));
  ResumedRecord from{.record = {},
                     .checkpoint_time = saved.time,
                     .epoch = saved.progress.epochs_done + 1,
                     .step = saved.steps()};
  if (job.world.leads()) from.record = std::move(job.resume->checkpoint->record);
  job.resume->checkpoint.reset();
  log.resume(start, warnings, from);
}

RunLength run_length(const TrainingJob& job) {
  const ImageSize size = job.inputs.pixels.output;
  return {.images_per_step = job.global_batch(),
          .valid_images = static_cast<long long>(job.num_valid_images()),
          .image_side = std::max(size.height, size.width),
          .on_gpu = job.device.is_cuda};
}

long long bytes_of_copies(const TrainState& state, bool writes_checkpoints) {
  const auto bytes_of = [](const std::vector<NamedTensor>& items) {
    long long bytes = 0;
    for (const NamedTensor& item : items) bytes += static_cast<long long>(item.tensor.nbytes());
    return bytes;
  };
  const long long weights = bytes_of(state.model->state());  // of the best epoch
  if (!writes_checkpoints) return weights;
  const long long averages = state.averages ? bytes_of(state.averages->state()) : 0;
  return weights + weights + bytes_of(state.optimizer->state()) + averages;
}

MemoryUse memory_plan(const TrainingJob& job, const TrainState& state) {
  const long long copies =
      job.world.leads() ? bytes_of_copies(state, !job.config.checkpoint.path.empty()) : 0;
  return {.to_come = static_cast<long long>(job.cache.limit_bytes()) + copies,
          .ranks_on_host = job.world.local_size(),
          .batch_size = job.config.optimization.batch_size,
          .on_gpu = job.device.is_cuda};
}

}  // namespace kiln
