#include "run/training_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "base/text.h"
#include "run/checkpoint/checkpoints.h"
#include "run/epoch_end.h"
#include "run/folds/folds_run.h"
#include "run/frozen/automatic_run.h"
#include "run/frozen/frozen_run.h"
#include "run/kept_model.h"
#include "run/plan/choices.h"
#include "run/plan/class_counts.h"
#include "run/plan/plan_warnings.h"
#include "run/plan/prepare.h"
#include "run/plan/run_plan.h"
#include "run/run_faults.h"
#include "run/run_logger.h"
#include "run/step_votes.h"
#include "run/time_limit.h"
#include "run/vote.h"
#include "train/epoch.h"
#include "train/evaluation.h"

namespace kiln {
namespace {

// What the loop works with: the fixed parts, the state, the logger, and the checkpoints.
struct TrainingRun {
  TrainingJob& job;
  TrainState& state;
  RunLogger& log;
  Checkpoints& checkpoints;
  TimeLimit& limit;
  AutomaticRun& automatic;
  FoldsRun& folds;
  BadImageLedger bad_train, bad_valid;
};

// Why training stops.
struct Stop {
  int signal = 0;           // 0: none
  bool patience = false;    // ran out
  bool time_limit = false;  // is over, or fits no more epochs

  // As a checkpoint and the record say it.
  std::string reason() const {
    if (signal != 0) return "signal";
    return patience ? "patience" : time_limit ? "time-limit" : "";
  }
};

// What the model made of this rank's validation images.
struct Validation {
  std::vector<Prediction> predictions;
  HostLogits logits;
};

// Of all ranks.
std::size_t num_valid_images(const TrainingJob& job) {
  const std::size_t num_shards =
      job.config.data.has_valid_shard ? static_cast<std::size_t>(job.world.size()) : 1;
  return job.inputs.valid.samples.size() * num_shards;
}

// The validation half. Returns the stop signal that all ranks act on, or 0.
int validate(TrainingRun& run, EpochRecord& record, Validation& result) {
  World& world = run.job.world;
  const Stopwatch watch;
  const int num_classes = static_cast<int>(run.job.inputs.train.classes.size());
  BatchLoader loader = run.job.loaders->validation(record.epoch);
  Evaluator evaluator(*run.state.model, loader, run.job.validation_uploader(),
                      run.job.recipe.precision, {num_valid_images(run.job), num_classes});
  std::vector<BadImage> faults;
  while (stop_signal() == 0 && evaluator.step()) {
    run.log.validating(record.epoch, evaluator.steps_done(), loader.num_batches());
    for (BadImage& fault : loader.take_faults()) faults.push_back(std::move(fault));
    if (world.size() == 1)
      run.bad_valid.note(std::exchange(faults, {}), /*leads=*/true, run.job.log);
  }
  record.valid = evaluator.totals();
  result.predictions = evaluator.take_predictions();
  std::vector<double> numbers = summed_numbers(record.valid);
  const std::size_t num_totals = numbers.size();
  const std::vector<double> counts =
      class_counts(result.predictions, run.job.inputs.train.classes.size());
  numbers.insert(numbers.end(), counts.begin(), counts.end());
  const Vote all = vote(world, ballot(!faults.empty(), std::move(numbers)));
  if (all.has_bad_images) run.bad_valid.note_everywhere(faults, world, run.job.log);
  if (all.stop_signal != 0) return all.stop_signal;
  set_summed_numbers(all.numbers, record.valid);
  record.macro = macro_scores(std::span(all.numbers).subspan(num_totals));
  record.valid_seconds = watch.seconds();
  world.agree([&] { check_epoch(record); });
  result.logits = evaluator.take_logits();
  return 0;
}

// Whether the epoch's model replaces the best so far; a collective with --auto. Those of the folds
// have judged what is trained to the end, and nothing else.
bool keep_if_best(TrainingRun& run, const EpochRecord& record, const Validation& validation) {
  if (!run.automatic.allows(record, validation.predictions)) return false;
  if (run.folds.judges() && record.epoch < run.job.last_epoch()) return false;
  const OptimizationConfig& config = run.job.config.optimization;
  BestEpoch& best = run.state.progress.best;
  const bool is_first = best.epoch <= run.job.first_epochs();
  if (!is_first && config.save == SaveChoice::kBest &&
      !is_better(judged(record), {best.valid, best.macro_recall}, config.best_by))
    return false;
  best = {.epoch = record.epoch,
          .valid = record.valid,
          .macro_recall = judged(record).macro_recall,
          .calibration = {},
          .weights = {}};
  if (run.job.world.leads()) best.weights = copied_weights(*run.state.model);
  return true;
}

// Of a kept epoch, whose calibration is part of the best model's state.
ValidationDetails judge_kept(TrainingRun& run, const Validation& result, int epoch) {
  if (run.folds.judges()) return run.folds.details(epoch);
  TrainingJob& job = run.job;
  Calibration& calibration = run.state.progress.best.calibration;
  job.world.agree([&] { calibration = calibrate(job.world, result.logits); });
  ValidationDetails details =
      judge(job.world, result.predictions, job.inputs.valid, job.inputs.valid_pixels, epoch);
  details.calibration = calibration;
  return details;
}

// A run out of time makes at least a step and a validation, and validates what it has begun.
bool goes_on(const TrainState& state, const TrainingJob& job, const TimeLimit& limit) {
  if (state.progress.epochs_done >= job.last_epoch()) return false;
  if (state.progress.early_stopping.exhausted()) return false;
  return !limit.is_over() || state.progress.best.epoch == 0 || state.epoch.steps > 0;
}

// Runs until the last epoch, early stopping, the end of the time or a stop signal; from wherever
// the state is.
Stop train(TrainingRun& run) {
  TrainingJob& job = run.job;
  TrainState& state = run.state;
  Checkpoints& checkpoints = run.checkpoints;
  TimeLimit& limit = run.limit;
  while (goes_on(state, job, limit)) {
    const int epoch = state.progress.epochs_done + 1;
    EpochRecord record;

    // ------------------------------------ training ------------------------------------
    job.world.enter("training, epoch " + std::to_string(epoch));
    {
      const std::unique_ptr<Batches> loader = job.loaders->training(epoch, state.epoch.steps);
      if (!run.folds.judges()) job.loaders->begin_validation(epoch);
      TrainEpoch training(state, *loader, job.training_uploader(epoch), job.epoch_plan(epoch));
      StepVotes votes({job, run.log, checkpoints, limit, run.bad_train}, training, *loader);
      if (const int signal = votes.before_steps()) return {.signal = signal};
      while (!(limit.is_over() && state.epoch.steps > 0) && training.step()) {
        job.world.at("step " + std::to_string(training.steps_done()));
        if (const int signal = votes.after_step()) return {.signal = signal};
      }
      if (const int signal = votes.after_last_step()) return {.signal = signal};
      record = end_training(job.world, training);
    }
    const Stopwatch since_last_step;
    if (epoch < job.last_epoch() && !limit.is_over()) job.loaders->begin_training(epoch + 1);
    join_training(job, state, record);
    warn_of_skipped_steps(record, job.world, job.log);

    // ----------------------------------- validation -----------------------------------
    job.world.enter("evaluating, epoch " + std::to_string(epoch));
    Validation validation;
    std::optional<AveragesInPlace> averages;  // which are judged and kept
    averages.emplace(state.averages ? &*state.averages : nullptr);
    if (run.folds.judges())
      run.folds.judge(record);
    else if (const int signal = validate(run, record, validation))
      return {.signal = signal};

    // -------------------------------- keep, tell, stop --------------------------------
    job.loaders->adapt_threads();
    if (epoch == 1 && !run.folds.judges() && !job.inputs.train.is_stream())  // both have been read
      record.valid_in_train = tell_shared_images(job, record.valid.count);
    record.bad_train_images = state.bad_train.num_bad;
    record.bad_valid_images = state.bad_valid.num_bad;
    const bool kept = keep_if_best(run, record, validation);
    ValidationDetails details;
    averages.reset();
    if (kept) details = judge_kept(run, validation, epoch);
    run.log.epoch(record, kept ? &details : nullptr);
    state.progress.epochs_done = epoch;
    state.progress.early_stopping.note(judged(record));
    state.begin_epoch();
    limit.end_epoch(record, since_last_step.seconds());
    const Vote all = vote(job.world, {.stop_signal = stop_signal(),
                                      .wants_checkpoint = checkpoints.is_due(/*epoch_ended=*/true),
                                      .is_out_of_time = limit.leaves_no_step_after_epoch()});
    if (all.stop_signal != 0) return {.signal = all.stop_signal};
    limit.note_vote(all.is_out_of_time);
    if (all.wants_checkpoint) checkpoints.begin();
  }
  const bool has_patience = !state.progress.early_stopping.exhausted();
  if (!has_patience && state.progress.epochs_done < job.last_epoch()) return {.patience = true};
  return {.time_limit = limit.has_ended_training()};
}

// What a forecast needs to know of a run whose number of epochs is known.
RunLength run_length(const TrainingJob& job) {
  const ImageSize size = job.inputs.pixels.output;
  return {.images_per_step = job.global_batch(),
          .valid_images = job.trains_folds() ? 0 : static_cast<long long>(num_valid_images(job)),
          .image_side = std::max(size.height, size.width),
          .on_gpu = job.device.is_cuda};
}

// The run in its parts: a head fitted to features, epochs, or with --auto the one before the
// others; with --folds other networks before it.
Stop train_in_parts(TrainingJob& job, TrainState& state, RunLogger& log, Checkpoints& checkpoints,
                    TimeLimit& limit, FoldsRun& folds) {
  if (job.uses_features) {
    checkpoints.forgo_the_last();  // its model is used up
    return {.signal = train_on_features(job, state, *state.model, log).stop_signal};
  }
  if (const int signal = folds.train(checkpoints)) return {.signal = signal};
  const DataConfig& data = job.config.data;
  AutomaticRun automatic(job, state, log);
  const bool fits_head = !automatic.has_begun();
  if (const int signal = automatic.fit_head(limit)) {
    checkpoints.forgo_the_last();  // it starts over
    return {.signal = signal};
  }
  if (fits_head) checkpoints.begin();
  if (time_limit_of(job) == 0) log.forecast(run_length(job));
  TrainingRun run{job,
                  state,
                  log,
                  checkpoints,
                  limit,
                  automatic,
                  folds,
                  {"training", job.inputs.train, data.has_train_shard, data, state.bad_train},
                  {"validation", job.inputs.valid, data.has_valid_shard, data, state.bad_valid}};
  const Stop stop = train(run);
  automatic.finish(limit);
  return stop;
}

// "the one with the highest top-1".
std::string kept_text(const TrainingJob& job) {
  const OptimizationConfig& config = job.config.optimization;
  if (job.is_automatic) return "the one --auto chose";
  if (config.save == SaveChoice::kLast) return "the last one";
  if (config.best_by == BestBy::kLoss) return "the one with the lowest validation loss";
  return config.best_by == BestBy::kMacroRecall ? "the one with the highest macro recall"
                                                : "the one with the highest top-1";
}

// Stopping goes by the validation loss, keeping by what --best-by says.
std::string patience_text(const TrainingJob& job, const TrainState& state) {
  const int patience = job.config.optimization.patience;
  const bool is_best = job.config.optimization.recipe.stop_when == StopWhen::kBest;
  return std::string(is_best ? "No epoch was better than the best one by --best-by"
                             : "The validation loss was not below the previous epoch's") +
         formatted(" for %d %s; epoch %d, ", patience,
                   patience == 1 ? "epoch" : "consecutive epochs", state.progress.best.epoch) +
         kept_text(job) + ", is kept.";
}

// Why training ended, where it was not the last epoch.
void tell_stop(const Stop& stop, const TrainingJob& job, const TrainState& state,
               const TimeLimit& limit, RunLogger& log) {
  const bool starts_over = job.config.checkpoint.path.empty() || job.uses_features ||
                           (job.is_automatic && !state.progress.automatic);
  if (stop.signal != 0)
    log.stopped_early(stop.reason(), "Stopped by signal " + std::to_string(stop.signal) + "." +
                                         (starts_over ? "" : " Run the same command to resume."));
  if (stop.patience)
    log.stopped_early(stop.reason(), "Stopped early. " + patience_text(job, state));
  if (stop.time_limit) log.stopped_early(stop.reason(), limit.end_text());
}

// The plan of a run that begins, or where it goes on.
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

}  // namespace

int run_training(const TrainConfig& config, Process& process) {
  World& world = process.world;
  end_on_stop_signals();  // until there is something to save
  keep_freed_memory();
  const std::unique_ptr<TrainingJob> job = prepare(config, world, process.log);
  if (job->is_done()) {
    process.log.info("This run has already finished; its model is in '" +
                     config.output.trained_model_path + "': there is nothing to do.");
    return 0;
  }
  // These outlive the catch: collectives on them may be in flight.
  std::unique_ptr<TrainState> state;
  RunLogger log(config.output, world.leads(), job->device, process.log);
  std::optional<FoldsRun> folds;
  try {
    state = begin(*job);
    install_stop_signals();
    begin_record(*job, *state, log);
    log.watch_memory(memory_plan(*job, *state));
    auto checkpoints = std::make_unique<Checkpoints>(*job, *state, log);
    TimeLimit limit(*job, *state, log);
    folds.emplace(*job, *state, log);
    const Stop stop = train_in_parts(*job, *state, log, *checkpoints, limit, *folds);
    if (job->trace) job->trace->finish();
    tell_stop(stop, *job, *state, limit, log);
    world.enter("writing the last checkpoint", /*patient=*/true);
    const std::string reason = stop.reason();
    checkpoints->finish(stop.signal != 0 ? "" : reason.empty() ? "epochs" : reason);
    checkpoints.reset();
    world.enter("saving", /*patient=*/true);
    world.agree([&] { save(*job, std::move(state), log); });
    return stop.signal == 0 ? 0 : 128 + stop.signal;
  } catch (...) {
    const std::exception_ptr failure = log.advised(std::current_exception());
    log.failed(failure);
    announce_failure(failure, world);  // while the communicators still exist
    std::rethrow_exception(failure);
  }
}

}  // namespace kiln
