// --time-limit: how many epochs fit into it, and after which step training ends.
//
// The learning rate of the first epoch does not depend on how many follow. So that one is trained
// and timed, and then the schedule is laid over as many as fit. If one takes longer than thought,
// the limit strikes within an epoch: no step follows, but a validation does, for which time was
// held back.
#pragma once

#include <optional>
#include <string>

#include "base/system.h"
#include "base/training_record.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

// What is known after an epoch.
struct TimeBudget {
  int epochs_done = 1;
  int most_epochs = 1;
  double seconds_left = 0;   // to train in, without what is held back for the end of the run
  double train_seconds = 0;  // that an epoch trains
  double end_seconds = 0;    // that its validation and its reports take
};

// The epochs to plan, with those done. Whole ones, but where there are hardly two, one of which at
// least half fits counts.
int epochs_that_fit(const TimeBudget& budget);

// The time to hold back, of a limit, for the end of a run that writes so many bytes then. In
// seconds.
double closing_seconds(double limit, long long bytes);

// Rank 0's clock decides; the others hear of it by votes and broadcasts. Without a time limit it
// does nothing. One thread.
class TimeLimit {
 public:
  // All must outlive it. A collective, after the record has begun: a run that resumes takes the
  // length that it has decided before, and may have no time left.
  TimeLimit(TrainingJob& job, TrainState& state, RunLogger& log);

  // Whether no step follows, on all ranks alike.
  bool is_over() const { return is_set() && plan().is_over; }
  // The limit, and not --epochs or --patience, has ended training.
  bool has_ended_training() const;
  // Why, for the log.
  std::string end_text() const;

  // Before the first step of an epoch that is thought to take so long: where not even half of its
  // training fits, and its validation, no step follows. A collective.
  void end_unless_epoch_fits(double train_seconds, double valid_seconds);
  // After each step: measures the pace.
  void note_step();
  // For this rank's vote: whether the limit leaves no time for another step, and what must follow.
  bool leaves_no_step() const;
  // Acts on the vote of all ranks: if it says so, the limit is over.
  void apply_vote(bool is_out_of_time);
  // After an epoch was recorded, `end_seconds` after its last step. A collective. After the first
  // one it decides the number of epochs.
  void end_epoch(const EpochRecord& record, double end_seconds);

 private:
  bool is_set() const { return limit_s_ > 0; }
  TimePlan& plan() { return *state_.progress.time_plan; }
  const TimePlan& plan() const { return *state_.progress.time_plan; }
  double seconds_left() const;
  double end_seconds() const;
  bool has_more_steps() const;
  void decide(const EpochRecord& record);

  TrainingJob& job_;
  TrainState& state_;
  RunLogger& log_;
  const double limit_s_;
  double closing_s_ = 0;
  // The pace of steps in this epoch, from its third in this process on: the first ones warm up.
  int steps_ = 0;
  Stopwatch since_second_;
  double step_seconds_ = 0;         // 0: not known yet
  double thought_end_seconds_ = 0;  // an estimate to use until step_seconds_ is known
};

// In seconds; 0: none. A head that is fitted to features has no epochs to leave out.
double time_limit_of(const TrainingJob& job);

// As it was given: "30min".
std::string time_limit_word(const TrainingJob& job);

// Empty without a limit; nothing is decided in it before training.
std::optional<TimePlan> time_plan_of(const TrainingJob& job, const TrainState& state);

// "30min: 12 epochs fit, …": what was decided; before that, that it will be.
std::string time_limit_text(const TrainingJob& job, const TimePlan& plan);

// Sets the schedule to the number of epochs that was decided, and notes it for repeat.yaml.
void apply_time_plan(TrainingJob& job, const TimePlan& plan);

}  // namespace kiln
