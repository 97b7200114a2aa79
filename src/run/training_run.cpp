#include "run/training_run.h"

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system.h"
#include "run/bad_images.h"
#include "run/checkpoint/checkpoints.h"
#include "run/checkpoint/image_hashes.h"
#include "run/epoch_end.h"
#include "run/epoch_validation.h"
#include "run/frozen/automatic_run.h"
#include "run/frozen/frozen_run.h"
#include "run/kept_model.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/prepare.h"
#include "run/room.h"
#include "run/run_logger.h"
#include "run/run_start.h"
#include "run/step_votes.h"
#include "run/time_limit.h"
#include "run/training_end.h"
#include "run/vote.h"
#include "train/epoch.h"

namespace kiln {
namespace {

// What training works with. All references must outlive it.
struct TrainingRun {
  TrainingJob& job;
  TrainState& state;
  RunLogger& log;
  Checkpoints& checkpoints;
  TimeLimit& limit;
  Room& room;
  AutomaticRun automatic{job, state, log};
  BadImageLedger bad_train{"training", job.inputs.train, job.config.data.has_train_shard,
                           job.config.data, state.bad_train};
  BadImageLedger bad_valid{"validation", job.inputs.valid, job.config.data.has_valid_shard,
                           job.config.data, state.bad_valid};
};

// The training half of an epoch, starting at the step that the state has reached. Returns the stop
// signal that all ranks act on, or 0.
int train_steps(TrainingRun& run, int epoch, EpochRecord& record) {
  TrainingJob& job = run.job;
  EpochSums& sums = run.state.epoch;
  job.world.enter("training, epoch " + std::to_string(epoch));
  const std::unique_ptr<Batches> loader = job.loaders->training(epoch, sums.steps);
  job.loaders->begin_validation(epoch);
  TrainEpoch training(run.state, *loader, job.training_uploader(epoch), job.epoch_plan(epoch));
  StepVotes votes({job, run.log, run.checkpoints, run.limit, run.bad_train}, training, *loader);
  if (const int signal = votes.before_steps()) return signal;
  while (!(run.limit.is_over() && sums.steps > 0) && training.step()) {
    job.world.at("step " + std::to_string(training.steps_done()));
    if (const int signal = votes.after_step()) return signal;
  }
  if (const int signal = votes.after_last_step()) return signal;
  record = end_training(job.world, training);
  return 0;
}

// Adds the validation results to the record. Returns the stop signal that all ranks act on, or 0.
int validate_epoch(TrainingRun& run, EpochRecord& record, Validation& validation) {
  TrainingJob& job = run.job;
  if (const int signal =
          validate({job, *run.state.model, run.log, run.bad_valid}, record, validation))
    return signal;
  job.loaders->adapt_threads();
  // At the end of the first epoch, both sets have been read.
  if (record.epoch == 1 && !job.inputs.train.is_stream())
    record.valid_in_train = warn_of_shared_images(job, record.valid.count);
  if (record.epoch == 1) share_hashes(job);
  warn_of_changed_images(job);
  record.bad_train_images = run.state.bad_train.num_bad;
  record.bad_valid_images = run.state.bad_valid.num_bad;
  return 0;
}

// Keeps the model if --auto allows it and it is the best so far. Returns whether it was kept, the
// same on all ranks.
bool keep_if_allowed(TrainingRun& run, const EpochRecord& record,
                     const std::vector<Prediction>& predictions) {
  // The order matters: automatic.allows() is a collective and keeps its own account of every epoch,
  // so it comes first. keep_if_best() changes the state, so it comes last.
  return run.automatic.allows(record, predictions) && keep_if_best(run.job, run.state, record);
}

// The validation half of an epoch: judges the model, and keeps it if it is the best so far. Then
// `kept` receives the details for the record. Returns the stop signal that all ranks act on, or 0.
int judge_model(TrainingRun& run, EpochRecord& record, std::optional<ValidationDetails>& kept) {
  TrainState& state = run.state;
  run.job.world.enter("evaluating, epoch " + std::to_string(record.epoch));
  Validation validation;
  {
    // If weights are averaged, it is the averages that are judged and kept.
    const AveragesInPlace averages(state.averages ? &*state.averages : nullptr);
    if (const int signal = validate_epoch(run, record, validation)) return signal;
    if (!keep_if_allowed(run, record, validation.predictions)) return 0;
  }
  kept = judge_best(run.job, state, validation.predictions, validation.logits);
  return 0;
}

// Advances the state to the next epoch, and agrees with the other ranks on what follows. Returns
// the stop signal that all ranks act on, or 0.
int end_epoch(TrainingRun& run, const EpochRecord& record, const Stopwatch& since_last_step) {
  Progress& progress = run.state.progress;
  progress.epochs_done = record.epoch;
  progress.early_stopping.add(record.valid.loss());
  run.state.begin_epoch();
  run.limit.end_epoch(record, since_last_step.seconds());
  const Vote all =
      vote(run.job.world, {.stop_signal = stop_signal(),
                           .wants_checkpoint = run.checkpoints.is_due(/*epoch_ended=*/true),
                           .is_out_of_time = run.limit.leaves_no_step()});
  if (all.stop_signal != 0) return all.stop_signal;
  run.limit.apply_vote(all.is_out_of_time);
  if (all.wants_checkpoint) run.checkpoints.begin();
  return 0;
}

// Trains from where the state is until the last epoch, early stopping, the time limit or a stop
// signal.
TrainingEnd train(TrainingRun& run) {
  TrainingJob& job = run.job;
  TrainState& state = run.state;
  while (has_more_to_train(job, state, run.limit)) {
    const int epoch = state.progress.epochs_done + 1;
    EpochRecord record;
    if (const int signal = train_steps(run, epoch, record)) return {.signal = signal};
    const Stopwatch since_last_step;
    if (epoch < job.last_epoch() && !run.limit.is_over()) job.loaders->begin_training(epoch + 1);
    sum_over_ranks(job, state, record);
    warn_of_skipped_steps(record, job.world, job.log);

    std::optional<ValidationDetails> kept;
    if (const int signal = judge_model(run, record, kept)) return {.signal = signal};
    run.log.epoch(record, kept ? &*kept : nullptr);
    if (job.world.leads()) run.room.watch();
    if (const int signal = end_epoch(run, record, since_last_step)) return {.signal = signal};
  }
  return end_of_training(job, state, run.limit);
}

// All training of a run: epochs, or instead a head that is fitted to features. With --auto, the
// head is fitted before the epochs.
TrainingEnd train_in_parts(TrainingRun& run) {
  if (run.job.uses_features) {
    run.checkpoints.skip_final();  // the model in the state is unusable afterwards
    return {.signal = train_on_features(run.job, run.state, *run.state.model, run.log).stop_signal};
  }
  const bool fits_head = run.automatic.needs_head();
  if (const int signal = run.automatic.fit_head(run.limit)) {
    run.checkpoints.skip_final();  // a run that is stopped here starts over
    return {.signal = signal};
  }
  if (fits_head) {
    share_hashes(run.job);
    run.checkpoints.begin();
  }
  if (time_limit_of(run.job) == 0) run.log.forecast(run_length(run.job));
  const TrainingEnd end = train(run);
  run.automatic.finish(run.limit);
  return end;
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
  // These must outlive the catch block, since collectives on them may be in flight.
  std::unique_ptr<TrainState> state;
  RunLogger log(config.output, world.leads(), job->device, process.log);
  try {
    state = make_state(*job);
    Room room(*job, *state);
    world.agree([&] {
      if (world.leads()) room.require();
    });
    install_stop_signals();
    begin_record(*job, *state, log);
    log.watch_memory(memory_plan(*job, *state));
    auto checkpoints = std::make_unique<Checkpoints>(*job, *state, log);
    TimeLimit limit(*job, *state, log);
    TrainingRun run{*job, *state, log, *checkpoints, limit, room};
    const TrainingEnd end = train_in_parts(run);
    if (job->trace) job->trace->finish();
    warn_of_changed_images(*job);  // of an epoch that did not end
    log_early_end(end, *job, *state, limit, log);
    world.enter("writing the last checkpoint", /*patient=*/true);
    checkpoints->finish(end.finished_reason());
    checkpoints.reset();
    world.enter("saving", /*patient=*/true);
    world.agree([&] { save(*job, std::move(state), log); });
    return end.exit_code();
  } catch (...) {
    const std::exception_ptr failure = log.advised(std::current_exception());
    log.failed(failure);
    tell_failure(failure, process);  // while all that may wait for the GPU still exists
    std::rethrow_exception(failure);
  }
}

}  // namespace kiln
