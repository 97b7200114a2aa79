#include "run/checkpoint/resume.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/options.h"
#include "model/weights/starting_weights.h"
#include "record/run_file.h"
#include "run/checkpoint/checkpoints.h"
#include "run/checkpoint/image_hashes.h"
#include "run/predecessor.h"
#include "run/run.h"
#include "train/state.h"

namespace kiln {
namespace {

// "--augment was flip and is now none", of each changed option with this effect.
std::vector<std::string> changes_of(const OptionTexts& before, const OptionTexts& now,
                                    Effect effect) {
  std::vector<std::string> changes;
  for (const auto& [option, text, origin, reason] : changed_options(before, now)) {
    // why_not_bit_equal() and differing_options() compare the values in effect of the others.
    if (option->effect == effect && std::ranges::count(options::kFoundOnResume, option->name) == 0)
      changes.push_back("--" + option->name + " " + reason);
  }
  return changes;
}

[[noreturn]] void refuse(const std::string& folder, const std::vector<std::string>& reasons,
                         const std::string& remedy = "use the original settings") {
  throw Error(ErrorCode::kUserError, "The run in --checkpoint-path '" + folder +
                                         "' cannot be resumed: " + joined(reasons, "; ") +
                                         ". To resume, " + remedy +
                                         "; to start over, use --resume never or another "
                                         "--checkpoint-path.");
}

// Notes what has changed.
void compare(const std::string& what, const std::string& before, const std::string& now,
             std::vector<std::string>& differences) {
  if (now != before) differences.push_back(what + " was " + before + " and is now " + now);
}

std::vector<std::string> differing_options(const TrainConfig& config, const SavedRun& saved) {
  const Settings settings = with_checkpoint(config.settings, saved.options);
  OptionTexts before = saved.options;
  for (const Setting& setting : settings)
    for (auto& [name, text] : before)  // a given value is compared with what the run had found
      if (setting.is_given() && setting.option->name == name)
        text = value_of(saved.options_in_effect, name);
  std::vector<std::string> differences = changes_of(before, settings.texts(), Effect::kResult);
  if (const std::optional<Precision> now = config.optimization.precision)
    compare("--precision", saved.precision, precision_name(*now), differences);
  if (const std::optional<Exif> now = config.data.records.exif)
    compare("--exif", saved.exif, exif_name(*now), differences);
  if (const std::optional<Fit> now = config.data.fit)
    compare("--fit", saved.fit, fit_name(*now), differences);
  const int reached = saved.progress.epochs_done + (saved.steps() > 0 ? 1 : 0) -
                      (saved.progress.automatic ? 1 : 0);  // epoch 1 fitted the head
  const OptimizationConfig& length = config.optimization;
  if ((length.steps == 0 || settings.is_given(options::kEpochs)) && length.epochs < reached)
    differences.push_back(
        formatted("--epochs is %d, but the run has reached epoch %d", length.epochs, reached));
  return differences;
}

// The record ends after the model is written, so a run killed in between has only the model. If the
// record cannot be found, the model suffices.
bool is_complete(const OutputConfig& output, double started) {
  if (!holds_model_of(output.trained_model_path, started)) return false;
  const auto record = find_record(std::filesystem::path(output.log_path) / kRunFileName, started);
  return !record || record->end.status != RunStatus::kRunning;
}

void compare_data(const std::string& name, const DatasetFingerprint& before,
                  const DatasetFingerprint& now, std::vector<std::string>& differences) {
  if (before.hash == now.hash) return;
  if (before.classes != now.classes)
    differences.push_back("the " + name + " data has different classes");
  else if (before.images != now.images)
    differences.push_back(formatted("the %s data had %lld images and now has %lld", name.c_str(),
                                    before.images, now.images));
  else
    differences.push_back("the " + name + " data has different images or labels");
}

// Takes out the tensors whose names begin with `prefix`, and strips the prefix.
StateDict take_part(StateDict& tensors, const std::string& prefix) {
  StateDict part;
  for (StoredTensor& tensor : tensors)
    if (tensor.name.starts_with(prefix)) {
      part.push_back(std::move(tensor));
      part.back().name.erase(0, prefix.size());
    }
  return part;
}

// Broadcasts the saved bytes of every rank; empty for a rank of which the checkpoint has none.
std::vector<std::string> share_bytes(const Run& run, const char* what) {
  std::vector<std::string> all(run.resume->run.ranks.size());
  std::unordered_map<std::string, std::size_t> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    ranks.emplace(formatted("rank.%zu.%s", rank, what), rank);
  if (run.world.leads())
    for (const StoredTensor& tensor : run.resume->checkpoint->tensors)
      if (const auto found = ranks.find(tensor.name); found != ranks.end())
        all[found->second] = tensor.bytes;
  if (run.world.size() == 1) return all;
  return from_bytes<std::vector<std::string>>(run.world.broadcast(to_bytes(all)));
}

// The sums to continue from if the number of ranks has changed: rank 0 takes over all of them.
SavedEpoch joined_epoch(const std::vector<SavedRank>& ranks, bool leads) {
  SavedEpoch all = ranks.front().epoch;
  if (!leads)
    return {{.steps = all.steps, .statistics_averaged = all.statistics_averaged}, Totals()};
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const SavedEpoch& other = ranks[rank].epoch;
    all.totals += other.totals;
    all.images += other.images;
    all.weighted_seconds += other.weighted_seconds;
    all.weighted_rate += other.weighted_rate;
  }
  return all;
}

// Sets `statistics` to the mean over the saved ranks, and counts to the maximum, as at the end of
// an epoch. In float64, so that frozen statistics, which are the same on all ranks, stay as they
// are.
void average(const std::vector<std::string>& packed_of_ranks,
             const std::vector<NamedTensor>& statistics) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> means;
  for (const NamedTensor& item : statistics)
    means.push_back(at::zeros_like(item.tensor, at::kDouble));
  for (const std::string& packed : packed_of_ranks) {
    if (!unpack_statistics(packed, statistics)) continue;
    for (std::size_t i = 0; i < means.size(); ++i)
      if (const at::Tensor& value = statistics[i].tensor; value.is_floating_point())
        means[i].add_(value);
      else
        means[i].copy_(at::maximum(means[i], value));
  }
  for (std::size_t i = 0; i < means.size(); ++i) {
    const at::Tensor& value = statistics[i].tensor;
    if (value.is_floating_point()) means[i].div_(static_cast<double>(packed_of_ranks.size()));
    value.copy_(means[i]);
  }
}

// Restores what an optimizer step changes on all ranks. On rank 0 also adds the best epoch's
// weights to the progress, which must be in the state already.
void restore_tensors(Run& run) {
  TrainState& state = *run.state;
  run.world.agree([&] {
    if (!run.world.leads()) return;
    Checkpoint& from = *run.resume->checkpoint;
    load_tensors(state.model->state(), take_part(from.tensors, "model."), from.path);
    load_tensors(state.optimizer->state(), take_part(from.tensors, "optimizer."), from.path);
    if (state.averages)
      load_tensors(state.averages->state(), take_part(from.tensors, "average."), from.path);
    for (const StoredTensor& weight : from.best)
      state.progress.best.weights.push_back({weight.name, view_of(weight).clone()});
  });
  broadcast_tensors(state.model->state(), *run.communicator);
  broadcast_tensors(state.optimizer->state(), *run.communicator);
  if (state.averages) broadcast_tensors(state.averages->state(), *run.communicator);
}

// Restores BatchNorm's statistics: this rank's own, or the mean over all ranks if the number of
// ranks has changed.
void restore_statistics(Run& run) {
  TrainState& state = *run.state;
  const std::vector<std::string> statistics = share_bytes(run, "statistics");
  run.world.agree([&] {
    const std::size_t expected = pack_statistics(statistics_of(state)).size();
    for (const std::string& packed : statistics)
      if (packed.size() != expected)
        throw Error(ErrorCode::kInvalidDataset, "The checkpoint in '" + run.config.checkpoint.path +
                                                    "' lacks the BatchNorm statistics of a rank.");
  });
  const bool same_ranks = run.resume->run.machine.num_ranks == run.world.size();
  const auto rank = static_cast<std::size_t>(run.world.rank());
  if (same_ranks)
    unpack_statistics(statistics[rank], statistics_of(state));
  else
    average(statistics, statistics_of(state));
}

// Restores the hashes of the images read so far. A rank with its own shard takes only its own.
void restore_hashes(Run& run) {
  const Division& division = run.plan.division;
  const auto rank = static_cast<std::size_t>(run.world.rank());
  const std::vector<std::string> train_hashes = share_bytes(run, "train_hashes");
  const std::vector<std::string> valid_hashes = share_bytes(run, "valid_hashes");
  for (std::size_t r = 0; r < train_hashes.size(); ++r) {
    if (!division.has_own_train || r == rank)
      unpack_hashes(train_hashes[r], run.sources.train.samples);
    if (!division.has_own_valid || r == rank)
      unpack_hashes(valid_hashes[r], run.sources.valid.samples);
  }
}

}  // namespace

void FoundCheckpoint::set_aside(const CheckpointConfig& config, World& world, Log& log) {
  if (misfit.empty()) return;
  world.agree([&] {
    if (!world.leads()) return;
    const std::string aside = config.path + ".before";
    std::error_code fault;
    if (is_checkpoint(aside)) std::filesystem::remove_all(aside, fault);
    std::filesystem::rename(config.path, aside, fault);
    log.info("This run starts over, since the checkpoint in '" + config.path +
             "' does not fit it: " + misfit + "." +
             (fault ? "" : " It is kept in '" + aside + "'; --checkpoint-path takes it."));
    if (config.is_temporary) return;
    folder.emplace(config.path, kKeptCheckpoints);
    folder->restart();
  });
}

namespace {

// The state.json of the newest checkpoint; empty: there is none. `misfit` becomes why those that
// nobody asked for are not used.
std::string open_newest(const CheckpointConfig& asked, FoundCheckpoint& found,
                        std::optional<Checkpoint>& newest, std::string& misfit, Log& log) {
  std::vector<std::string> skipped;
  if (!asked.is_temporary || is_checkpoint(asked.path)) {
    try {
      found.folder.emplace(asked.path, kKeptCheckpoints);
    } catch (const Error& failure) {
      if (!asked.is_temporary) throw;
      log.warning(std::string("No checkpoint can be used: ") + failure.what());
      return "";
    }
    if (asked.resume == ResumeChoice::kNever) {
      if (asked.is_temporary)
        misfit = "--resume is never";
      else
        found.folder->restart();
      return "";
    }
    newest = found.folder->newest(
        skipped, [](const std::string& state_json) { parse_saved_run(state_json); });
  }
  // The first new checkpoint would take their place, and most of the run may be in them.
  if (!newest && found.folder && found.folder->holds_unused()) {
    if (!asked.may_start_over())
      refuse(asked.path, skipped, "repair one of these checkpoints or restore it from a copy");
    misfit = joined(skipped, "; ");
    return "";
  }
  for (const std::string& why : skipped) log.warning("Checkpoint " + why + ".");
  if (!newest && asked.resume == ResumeChoice::kRequire)
    throw Error(ErrorCode::kUserError, "--resume is require, but --checkpoint-path '" + asked.path +
                                           "' holds no complete checkpoint. Give the folder of "
                                           "the run to resume, or use --resume auto.");
  return newest ? newest->state_json : "";
}

}  // namespace

FoundCheckpoint find_checkpoint(const TrainConfig& config, World& world, Log& log) {
  const CheckpointConfig& asked = config.checkpoint;
  FoundCheckpoint found;
  if (asked.path.empty()) return found;
  std::optional<Checkpoint> newest;
  std::string misfit;
  const std::string text = world.from_leader(
      [&]() -> std::string { return open_newest(asked, found, newest, misfit, log); });
  misfit = world.broadcast(misfit);
  world.agree([&] {
    if (text.empty()) return;
    ResumePoint point{parse_saved_run(text), std::move(newest)};
    const auto removed = removed_settings(point.run.options);
    if (!removed.empty() && !asked.may_start_over())
      refuse(asked.path, removed, "use the version that wrote it, " + point.run.machine.version);
    const auto differences = removed.empty() ? differing_options(config, point.run) : removed;
    if (!differences.empty() && !asked.may_start_over()) refuse(asked.path, differences);
    misfit = joined(differences, "; ");
    point.is_finished =
        !point.run.finished.empty() &&
        config.settings.text(options::kEpochs) == value_of(point.run.options, options::kEpochs);
    found.resume = std::move(point);
  });
  if (!misfit.empty()) found = {{}, {}, misfit};
  if (!found.resume) return found;
  const ResumePoint& point = *found.resume;
  found.resume->is_complete =
      world.broadcast(world.leads() && is_complete(config.output, point.run.started));
  if (!asked.is_temporary) return found;
  if (point.is_complete) {  // it was killed before it removed its checkpoints
    found = {};
    if (world.leads()) std::filesystem::remove_all(asked.path);
  } else if (world.leads()) {
    log.info("This run goes on from the checkpoint in '" + asked.path + "', at " +
             point.run.position() + "; with --resume never it starts over.");
  }
  return found;
}

std::string check_resumed(const SavedRun& saved, const Job& job) {
  World& world = job.world;
  const TrainConfig& config = job.config;
  const Plan& plan = job.plan;
  const bool is_shard = plan.division.has_own_train;
  std::vector<std::string> differences;
  if ((is_shard || config.ranks.exchange.keeps_ranks()) &&
      saved.machine.num_ranks != world.size()) {
    differences.push_back(
        formatted("each of its %d ranks had its own part, and now there are %d "
                  "ranks",
                  saved.machine.num_ranks, world.size()));
  } else {
    const SavedRank& mine = saved.ranks[is_shard ? static_cast<std::size_t>(world.rank()) : 0];
    compare_data("training", mine.train, job.fingerprints.train, differences);
    compare_data("validation", mine.valid, job.fingerprints.valid, differences);
    if (saved.model_fingerprint != job.fingerprints.model)
      differences.push_back("the model has a different architecture or different weights");
    const auto shown = [](const std::string& json) {
      Problems none;
      return json.empty() ? std::string("not given")
                          : TransformChain::parse(json, "state.json", none).summary();
    };
    const std::optional<TransformChain>& transform = job.sources.transform;
    if (const std::string now = transform ? transform->to_json() : ""; now != saved.transforms)
      differences.push_back("--transform-path was " + shown(saved.transforms) + " and is now " +
                            shown(now));
    // Of options whose texts are equal, but which follow from whether these and others are given. A
    // learning rate that is not given stays as it was.
    for (const Setting& changed : changed_options(saved.options_in_effect, plan.texts_in_effect))
      if (const std::string& name = changed.option->name;
          name == options::kAuto || name == options::kAugment ||
          (name == options::kEpochs && plan.stop.length.steps > 0))
        differences.push_back("--" + name + " " + changed.reason);
    if (const long long now = plan.global_batch; saved.global_batch != now)
      differences.push_back(
          formatted("the global batch was %lld images and is now %lld", saved.global_batch, now));
  }
  const std::vector<std::string> all = world.gather_on_rank_0(joined(differences, "; "));
  const auto first =
      std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  std::string misfit = world.broadcast(first == all.end() ? std::string() : *first);
  world.agree([&] {
    if (!misfit.empty() && !config.checkpoint.may_start_over())
      refuse(config.checkpoint.path, {misfit});
  });
  return misfit;
}

std::string why_not_bit_equal(const SavedRun& saved, const Job& job) {
  const SavedMachine &before = saved.machine, now = saved_machine(job.machine, job.world);
  std::vector<std::string> reasons;
  compare("the number of ranks", std::to_string(before.num_ranks), std::to_string(now.num_ranks),
          reasons);
  compare("the number of compute threads", std::to_string(before.num_threads),
          std::to_string(now.num_threads), reasons);
  compare("the device", before.device, now.device, reasons);
  compare("the instruction set", before.instructions, now.instructions, reasons);
  compare("the program", before.version, now.version, reasons);
  for (std::string& change : changes_of(saved.options, job.config.settings.texts(), Effect::kBits))
    reasons.push_back(std::move(change));
  if (before.num_ranks != now.num_ranks && !job.config.ranks.sync_batch_norm &&
      !freezes_all_norms(job.plan.recipe.freeze))
    reasons.emplace_back("without --sync-batch-norm, BatchNorm sees batches of a different size");
  if (const std::string_view why = job.config.ranks.exchange.kind->why_not_repeatable; !why.empty())
    reasons.emplace_back(why);
  if (reasons.empty()) return {};
  return "The results will not be bit-identical to those of an uninterrupted run: " +
         joined(reasons, "; ") + ".";
}

void restore(Run& run) {
  TrainState& state = *run.state;
  const ResumePoint& point = *run.resume;
  const SavedRun& saved = point.run;
  const bool same_ranks = saved.machine.num_ranks == run.world.size();
  const SavedRank& mine = saved.ranks[same_ranks ? static_cast<std::size_t>(run.world.rank()) : 0];
  state.progress = saved.progress;
  restore_tensors(run);
  restore_statistics(run);
  restore_hashes(run);
  if (state.averages) state.averages->set_steps(saved.averaged_steps);
  if (state.scaler && saved.loss_scale) state.scaler->set(*saved.loss_scale);
  state.bad_train = mine.bad_train;
  state.bad_valid = mine.bad_valid;
  load_epoch(same_ranks ? mine.epoch : joined_epoch(saved.ranks, run.world.leads()), state.epoch);
  // Training had ended, but this run asks for a different number of epochs.
  if (!saved.finished.empty() && !point.is_finished) state.progress.early_stopping.strikes = 0;
}

}  // namespace kiln
