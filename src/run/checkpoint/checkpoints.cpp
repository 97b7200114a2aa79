#include "run/checkpoint/checkpoints.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/platform/installation.h"
#include "base/text.h"
#include "model/weights/starting_weights.h"
#include "record/run_file.h"
#include "run/checkpoint/image_hashes.h"
#include "run/kept_model.h"
#include "run/run.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Beside temporary checkpoints.
fs::path best_beside(const CheckpointConfig& config) {
  return fs::path(config.path).parent_path() / kBestOfRun;
}

// Copies `sources` to the host in row-major order, reusing the memory of the previous copies.
void copy_to_host(const std::vector<NamedTensor>& sources, std::vector<NamedTensor>& copies) {
  const at::NoGradGuard no_grad;
  const bool is_cuda = sources.front().tensor.is_cuda();
  if (copies.empty())
    for (const NamedTensor& source : sources)
      copies.push_back(
          {source.name,
           at::empty(source.tensor.sizes(),
                     source.tensor.options().device(at::kCPU).pinned_memory(is_cuda).memory_format(
                         at::MemoryFormat::Contiguous))});
  for (std::size_t i = 0; i < sources.size(); ++i)
    copies[i].tensor.copy_(sources[i].tensor.detach(), /*non_blocking=*/true);
  if (is_cuda) {
    const c10::Device device = sources.front().tensor.device();
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  }
}

std::vector<NamedTensor> tensors_of(const TrainState& state) {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& part, const std::vector<NamedTensor>& its_tensors) {
    for (const NamedTensor& item : its_tensors) tensors.push_back({part + item.name, item.tensor});
  };
  add("model.", state.model->state());
  add("optimizer.", state.optimizer->state());
  if (state.averages) add("average.", state.averages->state());
  return tensors;
}

// The floating-point tensors and the counts, each flattened.
std::array<std::vector<at::Tensor>, 2> kinds_of(const std::vector<NamedTensor>& statistics) {
  std::array<std::vector<at::Tensor>, 2> kinds;
  for (const NamedTensor& item : statistics)
    kinds[item.tensor.is_floating_point() ? 0 : 1].push_back(item.tensor.view({-1}));
  return kinds;
}

}  // namespace

std::vector<NamedTensor> statistics_of(const TrainState& state) {
  std::vector<NamedTensor> statistics = state.model->buffers();
  if (!state.averages) return statistics;
  const std::vector<NamedTensor> averages = state.averages->buffers();
  statistics.insert(statistics.end(), averages.begin(), averages.end());
  return statistics;
}

std::string pack_statistics(const std::vector<NamedTensor>& statistics) {
  std::string bytes;
  for (const std::vector<at::Tensor>& kind : kinds_of(statistics)) {
    if (kind.empty()) continue;
    const at::Tensor host = at::cat(kind).cpu();
    bytes.append(static_cast<const char*>(host.const_data_ptr()), host.nbytes());
  }
  return bytes;
}

bool unpack_statistics(std::string_view packed, const std::vector<NamedTensor>& statistics) {
  const at::NoGradGuard no_grad;
  const auto kinds = kinds_of(statistics);
  std::size_t size = 0;
  for (const std::vector<at::Tensor>& kind : kinds)
    for (const at::Tensor& item : kind) size += item.nbytes();
  if (size != packed.size()) return false;
  for (const std::vector<at::Tensor>& kind : kinds)
    for (const at::Tensor& item : kind) {
      item.copy_(at::from_blob(const_cast<char*>(packed.data()), item.sizes(), item.dtype()));
      packed.remove_prefix(item.nbytes());
    }
  return true;
}

SavedMachine saved_machine(const Machine& machine, const World& world) {
  return {std::string(program_version()), at::get_cpu_capability(),
          machine.device.is_cuda ? "cuda" : "cpu", world.size(), at::get_num_threads()};
}

Checkpoints::Checkpoints(Run& run) : run_(run), state_(*run.state), config_(run.config.checkpoint) {
  if (run.checkpoint_folder) writer_ = std::make_unique<CheckpointWriter>(*run.checkpoint_folder);
}

bool Checkpoints::is_due(bool epoch_ended) {
  if (take_checkpoint_request()) {
    was_requested_ = config_.is_lasting();
    if (!was_requested_)
      run_.console.warning("SIGUSR2 requests a checkpoint, but --checkpoint-path is not given.");
  }
  if (config_.path.empty()) return false;
  if (writer_) warn_of_failure();
  ++(epoch_ended ? epochs_ : steps_);
  if (was_requested_ || !run_.world.leads() || cannot_write_) return was_requested_;
  const CheckpointEvery& every = config_.every;
  const bool due = (every.steps > 0 && steps_ >= every.steps) ||
                   (every.epochs > 0 && epochs_ >= every.epochs) ||
                   (every.seconds > 0 && since_.seconds() >= every.seconds);
  if (due && !writer_) return make_writer();
  if (!due || !writer_->is_busy()) return due;
  if (!std::exchange(has_warned_, true))
    run_.console.warning(
        "A checkpoint is skipped, since the previous one is still being written to '" +
        config_.path + "'. Use a faster disk or a longer --checkpoint-every.");
  steps_ = epochs_ = 0;
  since_ = {};
  return false;
}

bool Checkpoints::make_writer() {
  try {
    run_.checkpoint_folder.emplace(config_.path, kKeptCheckpoints);
    writer_ = std::make_unique<CheckpointWriter>(*run_.checkpoint_folder);
  } catch (const Error& failure) {
    run_.console.warning(std::string("No checkpoint can be written: ") + failure.what());
    cannot_write_ = true;
  }
  return writer_ != nullptr;
}

void Checkpoints::keep_best() {
  if (!config_.is_temporary) return;
  constexpr double kBetween = 60, kMostShare = 0.02;  // seconds; of the time
  const BestEpoch& best = state_.progress.best;
  const bool is_due = config_.every.epochs > 0 ||
                      since_best_.seconds() > std::max(kBetween, best_seconds_ / kMostShare);
  if (!run_.world.broadcast(is_due && best.epoch > kept_epoch_)) return;
  since_best_ = {};
  std::optional<SeenImages> seen;
  if (!run_.config.output.no_hashes) seen = gather_seen_images(run_.world, run_.plan, run_.sources);
  kept_epoch_ = best.epoch;
  if (!run_.world.leads()) return;
  try {
    const fs::path folder = best_beside(config_);
    write_directory(prepare_model_output(folder), model_files(run_, best, std::move(seen)));
  } catch (const std::exception& failure) {
    if (best_seconds_ == 0)
      run_.console.warning(std::string("The best epoch cannot be kept: ") + failure.what());
  }
  best_seconds_ = since_best_.seconds();
}

void remove_temporary_checkpoints(Run& run) {
  const CheckpointConfig& config = run.config.checkpoint;
  if (!config.is_temporary) return;
  if (run.checkpoint_folder) remove_all_quietly(config.path);
  if (holds_model_of(best_beside(config), run.log.started()))
    remove_all_quietly(best_beside(config));
}

void Checkpoints::warn_of_failure() {
  if (const std::string failure = writer_->take_failure(); !failure.empty())
    run_.console.warning("A checkpoint could not be written: " + failure + " Training continues.");
}

SavedRank Checkpoints::saved_rank() const {
  SavedRank rank{saved_epoch(state_.epoch), state_.bad_train, state_.bad_valid, {}, {}};
  if (!run_.world.leads() && !run_.plan.division.has_own_train) return rank;  // rank 0's are theirs
  rank.train = run_.fingerprints.train;
  rank.valid = run_.fingerprints.valid;
  return rank;
}

SavedRun Checkpoints::saved_run(const std::string& finished) const {
  SavedRun run;
  run.time = unix_seconds();
  run.started = run_.log.started();
  run.finished = finished;
  run.machine = saved_machine(run_.machine, run_.world);
  run.options = run_.config.settings.texts();
  run.options_in_effect = run_.plan.texts_in_effect;
  run.precision = precision_name(run_.plan.precision.precision);
  run.exif = exif_name(run_.plan.pixels.train.exif);
  run.fit = fit_name(run_.plan.pixels.train.fit);
  const auto& [mean, std] = run_.plan.pixels.normalization;
  run.mean.assign(mean.begin(), mean.end());
  run.std.assign(std.begin(), std.end());
  run.image_size = run_.plan.pixels.by_images;
  run.model = run_.sources.spec().model_name;
  run.model_fingerprint = run_.fingerprints.model;
  if (run_.sources.transform) run.transforms = run_.sources.transform->to_json();
  run.global_batch = run_.plan.global_batch;
  run.peak_learning_rate = run_.plan.recipe.schedule.peak;
  run.head_rate = run_.plan.recipe.optimizer.head_rate;
  if (state_.averages) run.averaged_steps = state_.averages->steps();
  if (state_.scaler) run.loss_scale = state_.scaler->values();
  run.progress = state_.progress;
  run.progress.best.weights.clear();
  run.ranks = {saved_rank()};
  return run;
}

void Checkpoints::write(const std::string& finished) {
  if (config_.path.empty()) return;
  World& world = run_.world;
  was_requested_ = false;
  steps_ = epochs_ = 0;
  since_ = {};
  // Do not save a diverged model. The next printed step or the end of the epoch reports it.
  for (const int step : world.gather(state_.epoch.metrics.first_nonfinite_step()))
    if (step != 0) return;
  state_.exchange->gather_state();
  const std::vector<std::string> ranks = world.gather_on_rank_0(format_rank(saved_rank()));
  std::vector<std::pair<std::string, std::string>> parts;
  const auto add = [&](const char* what, std::vector<std::string> of_ranks) {
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      parts.emplace_back(formatted("rank.%zu.%s", rank, what), std::move(of_ranks[rank]));
  };
  add("statistics", world.gather_on_rank_0(pack_statistics(statistics_of(state_))));
  add("train_hashes", gather_train_hashes(world, run_.plan, run_.sources));
  // Not needed before the end of epoch 1, whose validation reads all images anyway.
  if (state_.progress.epochs_done > 0)
    add("valid_hashes", gather_valid_hashes(world, run_.plan, run_.sources));
  if (!writer_) return;
  writer_->wait();
  warn_of_failure();
  parts_ = std::move(parts);
  state_json_ = format_saved_run(saved_run(finished), ranks);
  record_ = run_.log.record_text();
  copy_to_host(tensors_of(state_), copies_);
  best_ = state_.progress.best.weights;
  CheckpointView view{
      .state_json = state_json_, .record = record_, .best_epoch = state_.progress.best.epoch};
  for (const NamedTensor& copy : copies_) view.tensors.push_back(view_of(copy));
  for (const auto& [name, bytes] : parts_)
    view.tensors.push_back({name, DType::kUInt8, {std::ssize(bytes)}, bytes});
  for (const NamedTensor& weight : best_) view.best.push_back(view_of(weight));
  writer_->begin(std::move(view));
}

void Checkpoints::finish(const std::string& finished) {
  if (!is_forgone_ && config_.is_lasting()) write(finished);
  if (!writer_) return;
  writer_->wait();
  warn_of_failure();
}

}  // namespace kiln
