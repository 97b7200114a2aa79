#include "run/prepare/begin.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "run/checkpoint/resume.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/prepare.h"
#include "run/prepare/rank_agreement.h"
#include "train/precision.h"
#include "train/replicas.h"

namespace kiln {
namespace {

// With --sync-batch-norm, makes BatchNorm sum over all ranks.
void synchronize_batch_norm(const Run& run, ImageModel& model) {
  if (!run.batch_norm_lane) return;
  model.synchronize_batch_norm(
      {run.world.rank(), run.world.size(), [lane = run.batch_norm_lane.get()](at::Tensor& sums) {
         lane->wait(lane->all_reduce(sums));
       }});
}

// Every rank has rank 0's weights afterwards.
void connect(const RanksConfig& config, Run& run) {
  run.communicator = join_communicator(run.world, config, run.plan.output.log_path,
                                       run.machine.device, run.console);
  broadcast_tensors(run.model->state(), *run.communicator);
  if (run.outputs.trace) run.communicator->trace(run.outputs.trace->timeline());
  if (run.plan.sync_batch_norm && run.world.size() > 1)
    run.batch_norm_lane = run.communicator->second_lane("BatchNorm all-reduce");
  synchronize_batch_norm(run, *run.model);
}

// The state at the first step, or that of the checkpoint.
void make_state(bool bfloat16_gradients, Run& run) {
  const ExchangePlan& exchange = run.plan.exchange;
  run.state = std::make_unique<TrainState>(
      std::move(run.model), run.plan.recipe,
      BucketPlan{.bfloat16 = bfloat16_gradients, .sums_ranks = exchange.kind->sums_ranks},
      *run.communicator);
  TrainState& state = *run.state;
  state.random_seed = run.plan.loading.seed;
  state.progress.early_stopping.patience = run.plan.stop.patience;
  if (run.resume) restore(run);
  state.exchange =
      make_exchange(exchange, run.plan.recipe.optimizer, state, run.world, *run.communicator);
}

// Last, since the cache takes a share of the remaining memory.
void open_loaders(const DataConfig& config, Run& run) {
  const Plan& plan = run.plan;
  const at::Device place = torch_device(run.machine.device);
  run.uploaders.emplace(place, plan.pixels, plan.loading.batch_size);
  run.world.agree([&] {
    run.cache = plan.uses_features ? CacheChoice{.reason = "off, since each image is read once"}
                                   : choose_cache(config, run.sources, plan.pixels,
                                                  cache_limit_bytes(run.world.local_size()));
  });
  run.loaders = std::make_unique<TrainingLoaders>(
      plan.loading, run.sources, plan.pixels, plan.division, run.cache,
      host_batch_layout(place, plan.pixels.normalization,
                        [device = run.machine.device](std::size_t bytes) {
                          return pinned_memory(device, bytes);
                        }),
      [&log = run.console](const std::string& text) { log.warning(text); },
      run.outputs.trace ? run.outputs.trace->timeline().get() : nullptr);
}

// Logs the run's plan and warns of anything that may be unintended. A resumed run also logs where
// it resumes, and continues the record in its checkpoint. A collective. Throws as
// RunLogger::resume().
void begin_record(const TrainConfig& config, Run& run) {
  const RunStart start = describe_run(config, run);
  std::vector<std::string> warnings = plan_warnings(run.plan, run.machine, run.sources);
  if (!run.resume) return run.log.start(start, warnings);
  const SavedRun& saved = run.resume->run;
  if (std::string lost = why_not_bit_equal(run); !lost.empty()) warnings.push_back(std::move(lost));
  ResumedRecord from{.record = {},
                     .checkpoint_time = saved.time,
                     .epoch = saved.progress.epochs_done + 1,
                     .step = saved.steps()};
  if (run.world.leads()) from.record = std::move(run.resume->checkpoint->record);
  run.resume->checkpoint.reset();
  run.log.resume(start, warnings, from);
}

// What is known about this rank's memory before the first step: `to_come` covers caches and copies
// of the weights.
MemoryUse memory_plan(const Run& run) {
  const long long copies =
      run.world.leads() ? bytes_of_copies(*run.state, !run.plan.checkpoint.path.empty()) : 0;
  return {.to_come = static_cast<long long>(run.cache.limit_bytes()) + copies,
          .ranks_on_host = run.world.local_size(),
          .batch_size = run.plan.loading.batch_size,
          .on_gpu = run.machine.device.is_cuda};
}

}  // namespace

Uploaders::Uploaders(const at::Device& place, const PixelPlan& pixels, int batch_size)
    : place_(place), pixels_(pixels), batch_size_(batch_size), train_(opened(pixels.train.output)) {
  if (pixels.valid.output != pixels.train.output || !pixels.sizes.empty())
    valid_ = opened(pixels.valid.output);
}

std::unique_ptr<DeviceUploader> Uploaders::opened(ImageSize size) const {
  return std::make_unique<DeviceUploader>(place_, size, batch_size_, pixels_.normalization);
}

DeviceUploader& Uploaders::training(int epoch) {
  if (!pixels_.sizes.empty()) {
    const ImageSize size = pixels_.of_epoch(epoch).output;
    if (train_->size() != size) train_ = opened(size);
  }
  return *train_;
}

std::size_t Run::num_valid_images() const {
  const std::size_t num_shards =
      plan.division.has_own_valid ? static_cast<std::size_t>(world.size()) : 1;
  return sources.valid.samples.size() * num_shards;
}

std::unique_ptr<ImageModel> copied_model(const ImageModel& model, const Run& run) {
  std::unique_ptr<ImageModel> copy = make_image_model(run.plan.network);
  copy->prepare(torch_device(run.machine.device));
  synchronize_batch_norm(run, *copy);
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> from = model.state(), to = copy->state();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].tensor.copy_(from[i].tensor);
  return copy;
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

void begin(const TrainConfig& config, Run& run) {
  const Plan& plan = run.plan;
  connect(config.ranks, run);
  make_state(config.ranks.bfloat16_gradients, run);
  open_loaders(config.data, run);
  TrainState& state = *run.state;
  const bool writes_checkpoints = !plan.checkpoint.path.empty() && !plan.uses_features;
  run.room.emplace(
      RoomPlan{plan.output.trained_model_path, writes_checkpoints ? plan.checkpoint.path : "",
               static_cast<std::uint64_t>(bytes_of_copies(state, false)),
               static_cast<std::uint64_t>(bytes_of_copies(state, true))},
      run.console);
  run.world.agree([&] {
    if (run.world.leads()) run.room->require();
  });
  install_stop_signals();
  run.log.repeat_with({plan.options, config.data.network.weights, plan.choices});
  run.stop.emplace(plan.stop, run.world, run.clock, state, run.console, run.log);
  begin_record(config, run);
  run.log.watch_memory(memory_plan(run));
  run.checkpoints.emplace(run);
  run.stop->begin(/*is_resumed=*/run.resume.has_value());
  const auto ledger = [&](const char* name, const Dataset& set, bool is_shard,
                          ImageFaults& faults) {
    return BadImageLedger(name, set, is_shard, plan.on_bad_image, plan.max_bad_images, faults);
  };
  run.bad_train.emplace(
      ledger("training", run.sources.train, plan.division.has_own_train, state.bad_train));
  run.bad_valid.emplace(
      ledger("validation", run.sources.valid, plan.division.has_own_valid, state.bad_valid));
}

}  // namespace kiln
