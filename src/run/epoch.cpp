#include "run/epoch.h"

#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/loader/batch_loader.h"
#include "run/checkpoint/image_hashes.h"
#include "run/frozen/frozen_run.h"
#include "run/judge.h"
#include "run/kept_model.h"
#include "run/prepare/plan.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/shared_sources.h"
#include "run/vote.h"
#include "train/epoch.h"
#include "train/state.h"

namespace kiln {
namespace {

constexpr double kManySkipped = 0.05;  // share of the steps of an epoch

EpochPlan epoch_plan(const Run& run, int epoch) {
  const Plan& plan = run.plan;
  const Length& length = plan.stop.length;
  SchedulePlan schedule = plan.recipe.schedule;
  if (run.stop->has_time_limit()) schedule.epochs = run.stop->scheduled_epochs();
  const bool trains = run.world.rank() < plan.num_training_ranks;
  // The end of its images ends a training rank's epoch, unless --steps does.
  const bool is_counted = length.steps > 0 || !trains;
  return {
      .epoch = epoch,
      .num_epochs = run.stop->last_epoch(),
      .epochs_before = length.first_epochs,
      .schedule = std::move(schedule),
      .step = {.batch_size = plan.loading.batch_size,
               .batches_per_step = trains ? plan.loading.accumulate : 0,
               .smallest_batch = plan.pixels.smallest_batch,
               .train_on_empty_batches = run.config.ranks.sync_batch_norm && run.world.size() > 1,
               .loss = plan.recipe.loss,
               .clip_norm = plan.recipe.clip_norm,
               .precision = plan.recipe.precision,
               .task = run.train_task.get()},
      .mix = plan.recipe.mix,
      .rank = run.world.rank(),
      .num_ranks = plan.num_training_ranks,
      .max_steps = is_counted ? length.steps_of(epoch) : 0,
      .trace = run.trace ? &run.trace->steps() : nullptr};
}

// Throws Error kFailedToCompleteOperation on all ranks, naming the lowest step at which any rank's
// loss was not finite (0: none here). `at` is the current step. A collective.
[[noreturn]] void throw_diverged(World& world, const StepRecord& at, int first_nonfinite_step) {
  int first = 0;
  for (const int step : world.gather(first_nonfinite_step))
    if (step > 0 && (first == 0 || step < first)) first = step;
  world.agree([&] {
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The training loss is not finite in epoch %d, step %d, at learning rate %g: "
                  "training has diverged. Use a lower --learning-rate (try a tenth of it).",
                  at.epoch, first, at.learning_rate));
  });
  throw InternalError("ranks agreed on a failure that none of them reports");
}

// What the ranks agree on between the steps of an epoch: stop signals, bad images, non-finite
// losses, printed metrics, checkpoints, the time limit. Takes one all-reduce per step. Normally the
// ranks wait for it at once. If the exchange lets a rank lag, each continues and acts on a vote
// that many steps later, which bounds how far ahead of the others it can be.
// All calls are collectives. One thread.
class StepVotes {
 public:
  // All arguments must outlive it.
  StepVotes(Run& run, TrainEpoch& training, Batches& loader)
      : run_(run),
        training_(training),
        loader_(loader),
        votes_(run.world, run.config.ranks.exchange.kind->max_lag) {}

  // The run's Stop hears what the ranks agree on. Once: a stream may contain no image at all.
  // A rank may still wait for its stream when others already have images. So all vote before the
  // first step: they can agree to stop, and the epoch ends as soon as one stream has ended.
  void before_steps() {
    const Dataset& train = run_.sources.train;
    if (!train.is_stream()) return;
    const bool has_ended = !loader_.await_step();  // or a stop signal came; see ballot()
    Vote mine = ballot(false);
    mine.has_ended = has_ended;
    const Vote all = vote(run_.world, mine);
    run_.stop->add_votes(all);
    if (run_.stop->now()) return;
    if (all.has_ended)
      loader_.end_here();
    else
      require_one_stream(run_.world, run_.plan.division, train.name, loader_.beginning());
  }

  void after_step() {
    PendingStep step;
    step.is_printed = (training_.steps_done() - 1) % run_.config.output.print_freq == 0;
    step.faults = loader_.take_faults();
    const bool has_ended = training_.wants_step() && !loader_.await_step();
    Vote mine = ballot(!step.faults.empty());
    mine.has_ended = has_ended;
    mine.wants_checkpoint = run_.checkpoints->is_due(/*epoch_ended=*/false);
    run_.stop->count_step();
    mine.is_out_of_time = run_.stop->leaves_no_step();
    if (step.is_printed) {
      step.printed = training_.printed_step();
      mine.has_diverged = step.printed.first_nonfinite_step != 0;
      mine.numbers = summed_numbers(step.printed.record);
    }
    votes_.cast(mine);
    pending_.push_back(std::move(step));
    if (votes_.is_due()) act_on_oldest();
  }

  // Once: acts on the votes still in flight, until the run stops.
  void after_last_step() {
    while (!votes_.is_empty() && !run_.stop->now()) act_on_oldest();
  }

 private:
  // What this rank keeps for a vote from casting it until acting on it.
  struct PendingStep {
    std::vector<BadImage> faults;
    bool is_printed = false;
    PrintedStep printed;       // set if it is printed
    bool is_answered = false;  // a checkpoint has been written since
  };

  void act_on_oldest() {
    const Vote all = votes_.take();
    PendingStep step = std::move(pending_.front());
    pending_.pop_front();
    if (all.has_bad_images)
      run_.bad_train->record_on_all_ranks(step.faults, run_.world, run_.console);
    if (all.has_diverged)
      throw_diverged(run_.world, step.printed.record, step.printed.first_nonfinite_step);
    if (step.is_printed) {
      set_summed_numbers(all.numbers, step.printed.record);
      run_.log.step(step.printed.record);
    }
    run_.log.progress(training_.timing());
    if (run_.trace) run_.trace->after_step();
    if (all.has_ended && all.stop_signal == 0) loader_.end_here();
    run_.stop->add_votes(all);
    if (run_.stop->now()) {
      // A rank whose read was cut short by the stop signal may have trained on an incomplete batch,
      // so no checkpoint starts from this step.
      if (run_.world.sum({loader_.was_cut_short() ? 1.0 : 0.0}).front() > 0)
        run_.checkpoints->skip_final();
    } else if (all.wants_checkpoint && !step.is_answered) {
      run_.checkpoints->begin();
      for (PendingStep& later : pending_) later.is_answered = true;
    }
  }

  Run& run_;
  TrainEpoch& training_;
  Batches& loader_;
  DelayedVotes votes_;
  std::deque<PendingStep> pending_;
};

// The steps of an epoch, and this rank's record of them.
EpochRecord train_steps(Run& run, int epoch) {
  EpochSums& sums = run.state->epoch;
  Stop& stop = *run.stop;
  run.world.enter("training, epoch " + std::to_string(epoch));
  const std::unique_ptr<Batches> loader = run.loaders->training(epoch, sums.steps);
  run.loaders->begin_validation(epoch);
  EpochPlan plan = epoch_plan(run, epoch);
  if (run.first_batches) plan.show = std::ref(*run.first_batches);
  TrainEpoch training(*run.state, *loader, *run.train_uploader, plan);
  StepVotes votes(run, training, *loader);
  votes.before_steps();
  run.log.steps_begin();
  while (!stop.now() && !stop.makes_no_step() && training.step()) {
    run.world.at("step " + std::to_string(training.steps_done()));
    votes.after_step();
  }
  run.log.steps_end();
  if (!stop.now()) votes.after_last_step();
  if (stop.now()) return {};
  const int first_nonfinite_step = training.first_nonfinite_step();
  if (vote(run.world, {.has_diverged = first_nonfinite_step != 0}).has_diverged)
    throw_diverged(run.world, training.timing(), first_nonfinite_step);
  return training.finish();
}

// Sums the record over all ranks and averages the tensors that differ between their models, which
// are identical afterwards. A collective. Throws as require_equal_replicas().
void sum_over_ranks(Run& run, EpochRecord& record) {
  World& world = run.world;
  TrainState& state = *run.state;
  set_summed_numbers(world.sum(summed_numbers(record)), record);
  state.exchange->gather_state();
  if (!state.epoch.statistics_averaged) {
    const int num_ranks = run.plan.num_training_ranks;
    average_statistics(state.model->state(), *run.communicator, world, num_ranks);
    if (state.averages)
      average_statistics(state.averages->state(), *run.communicator, world, num_ranks);
  }
  state.epoch.statistics_averaged = true;
  require_equal_replicas(*state.model, world);
}

// The model's results on this rank's validation images.
struct Validation {
  std::vector<Prediction> predictions;
  HostLogits logits;  // of the images used to fit the temperature
};

// Evaluates this rank's images and sets the validation metrics of `record`, over all ranks.
Validation evaluate(Run& run, EpochRecord& record) {
  World& world = run.world;
  const Stopwatch watch;
  const std::size_t num_classes = run.sources.num_classes();
  const std::unique_ptr<BatchLoader> loader = run.loaders->validation(record.epoch);
  const Judge& judge = judge_of(run.sources.valid);
  Evaluator evaluator(*run.state->model, *loader, *run.valid_uploader, run.plan.recipe.precision,
                      judge.sample(run.num_valid_images(), num_classes), *run.valid_task);
  std::vector<BadImage> faults;
  while (stop_signal() == 0 && evaluator.step()) {
    run.log.validating(record.epoch, evaluator.steps_done(), loader->num_batches());
    for (BadImage& fault : loader->take_faults()) faults.push_back(std::move(fault));
    if (world.size() == 1)
      run.bad_valid->record(std::exchange(faults, {}), /*leads=*/true, run.console);
  }
  Totals totals = evaluator.totals();
  Validation result{evaluator.take_predictions(), {}};
  // One vote sums the totals, followed by the counts of classes.
  std::vector<double> numbers = summed_numbers(totals);
  const std::size_t num_totals = numbers.size();
  const std::vector<double> counts = judge.counts(result.predictions, num_classes);
  numbers.insert(numbers.end(), counts.begin(), counts.end());
  const Vote all = vote(world, ballot(!faults.empty(), std::move(numbers)));
  if (all.has_bad_images) run.bad_valid->record_on_all_ranks(faults, world, run.console);
  run.stop->add_votes(all);
  if (run.stop->now()) return result;
  set_summed_numbers(all.numbers, totals);
  record.valid = totals;
  record.valid_seconds = watch.seconds();
  world.agree([&] { check_epoch(record); });
  result.logits = evaluator.take_logits();
  judge.measure(run, std::span(all.numbers).subspan(num_totals), result.logits, record);
  return result;
}

}  // namespace

EpochRecord train_epoch(Run& run, int epoch) {
  EpochRecord record = train_steps(run, epoch);
  if (run.stop->now()) return record;
  run.stop->add_last_step();
  if (epoch < run.stop->last_epoch() && !run.stop->is_out_of_time())
    run.loaders->begin_training(epoch + 1);
  sum_over_ranks(run, record);
  // A few are expected in the first epoch, since the loss scale starts high.
  if (const int skipped = record.skipped_steps.value_or(0);
      run.world.leads() && skipped > kManySkipped * record.num_steps)
    run.console.warning(formatted(
        "%d of the %d steps of epoch %d were skipped, because gradients overflowed float16. Use "
        "--precision bf16 or fp32, or a lower --learning-rate, if this continues.",
        skipped, record.num_steps, record.epoch));
  return record;
}

std::optional<ValidationDetails> judge_epoch(Run& run, EpochRecord& record) {
  TrainState& state = *run.state;
  run.world.enter("evaluating, epoch " + std::to_string(record.epoch));
  Validation validation;
  {
    // If weights are averaged, it is the averages that are judged and kept.
    const AveragesInPlace averages(state.averages ? &*state.averages : nullptr);
    validation = evaluate(run, record);
    if (run.stop->now()) return {};
    run.loaders->adapt_threads();
    // At the end of the first epoch, both sets have been read.
    if (record.epoch == 1) doubt_accuracy(run.world, run.console, run.plan, run.sources, record);
    warn_of_changed_images(run.world, run.console, run.sources);
    record.bad_train_images = state.bad_train.num_bad;
    record.bad_valid_images = state.bad_valid.num_bad;
    if (!holds_against_head(run, record)) return {};
    if (!keep_if_best(run, record)) return {};
  }
  return judge_best(run, validation.predictions, validation.logits);
}

void end_epoch(Run& run, const EpochRecord& record) {
  Stop& stop = *run.stop;
  stop.end_epoch(record);
  const Vote all =
      vote(run.world, {.stop_signal = stop_signal(),
                       .wants_checkpoint = run.checkpoints->is_due(/*epoch_ended=*/true),
                       .is_out_of_time = stop.leaves_no_step()});
  stop.add_votes(all);
  if (all.wants_checkpoint && !stop.now()) run.checkpoints->begin();
}

void check_epoch(const EpochRecord& record) {
  if (record.train.count == 0 || record.valid.count == 0)
    throw Error(ErrorCode::kInvalidDataset,
                std::string(record.train.count == 0 ? "Training" : "Validation") +
                    " dataset is not valid: none of its images could be decoded. `kiln inspect "
                    "--check` lists why.");
  if (!std::isfinite(record.valid.loss_sum))
    throw Error(
        ErrorCode::kFailedToCompleteOperation,
        formatted("The validation loss is not finite after epoch %d, step %d, at learning rate "
                  "%g: training has diverged. Use a lower --learning-rate (try a tenth of it).",
                  record.epoch, record.num_steps, record.learning_rate));
}

}  // namespace kiln
