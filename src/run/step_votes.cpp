#include "run/step_votes.h"

#include <utility>

#include "run/epoch.h"
#include "run/prepare/shared_sources.h"

namespace kiln {

StepVotes::StepVotes(Run& run, TrainEpoch& training, Batches& loader)
    : run_(run),
      training_(training),
      loader_(loader),
      votes_(run.world, run.plan.exchange.kind->max_lag) {}

// A rank may still wait for its stream when others already have images. So all vote before the
// first step: they can agree to stop, and the epoch ends as soon as one stream has ended.
void StepVotes::before_steps() {
  const Dataset& train = run_.sources.train;
  if (!train.is_stream()) return;
  const bool has_ended = !loader_.await_step();  // or a stop signal came; see ballot()
  Vote mine = ballot(false);
  mine.has_ended = has_ended;
  const Vote all = vote(run_.world, mine);
  run_.stop->hear(all);
  if (run_.stop->now()) return;
  if (all.has_ended)
    loader_.end_here();
  else
    require_one_stream(run_.world, run_.plan.division, train.name, loader_.beginning());
}

void StepVotes::after_step() {
  PendingStep step;
  step.is_printed = (training_.steps_done() - 1) % run_.plan.output.print_freq == 0;
  step.faults = loader_.take_faults();
  const bool has_ended = training_.wants_step() && !loader_.await_step();
  Vote mine = ballot(!step.faults.empty());
  mine.has_ended = has_ended;
  mine.wants_checkpoint = run_.checkpoints->is_due(/*epoch_ended=*/false);
  run_.stop->note_step();
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

void StepVotes::after_last_step() {
  while (!votes_.is_empty() && !run_.stop->now()) act_on_oldest();
}

void StepVotes::act_on_oldest() {
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
  if (run_.outputs.trace) run_.outputs.trace->after_step();
  if (all.has_ended && all.stop_signal == 0) loader_.end_here();
  run_.stop->hear(all);
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

}  // namespace kiln
