// --time-limit: decides how many epochs fit into it, and after which step training ends.
//
// The learning rate of the first epoch does not depend on how many epochs follow. So the first
// epoch is trained and timed, and then the schedule is set to the number of epochs that fit. If
// epochs take longer than expected, the limit is reached within an epoch: no further step is made,
// but validation still runs, for which time was reserved.
#pragma once

#include <optional>
#include <string>

#include "base/system.h"
#include "record/training_record.h"
#include "run/prepare/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

// What is known after an epoch.
struct TimeBudget {
  int epochs_done = 1;
  int max_epochs = 1;
  double seconds_left = 0;   // for training, without the reserve for the end of the run
  double train_seconds = 0;  // training time of an epoch
  double end_seconds = 0;    // time of its validation and reports
};

// The total number of epochs to plan, including those done. Only whole epochs count, except that
// with fewer than three also one of which at least half fits.
int epochs_that_fit(const TimeBudget& budget);

// The seconds of `limit` to reserve for the end of a run, which then writes `bytes` bytes.
double closing_seconds(double limit, long long bytes);

// Rank 0's clock decides; the other ranks learn the decisions by votes and broadcasts. Does nothing
// without a time limit. One thread.
class TimeLimit {
 public:
  // All arguments must outlive it. A collective, called after the record has begun. A resumed run
  // keeps the length that was decided earlier, and may have no time left.
  TimeLimit(TrainingJob& job, TrainState& state, RunLogger& log);

  // Whether no further step is made; the same on all ranks.
  bool is_over() const { return is_set() && plan().is_over; }
  // Whether the limit, and not --epochs or --patience, has ended training.
  bool has_ended_training() const;
  // The reason, for the log.
  std::string end_text() const;

  // Call before the first step of an epoch that is expected to take this long. Ends training if
  // there is not enough time for its validation and half of its training. A collective.
  void end_unless_epoch_fits(double train_seconds, double valid_seconds);
  // Call after each step: measures how long steps take.
  void note_step();
  // For this rank's vote: whether there is no time left for another step and for what must follow
  // it.
  bool leaves_no_step() const;
  // Acts on the vote of all ranks: ends training if `is_out_of_time`.
  void apply_vote(bool is_out_of_time);
  // Call after an epoch has been recorded, `end_seconds` after its last step. After the first
  // epoch, decides the number of epochs. A collective.
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
  // The pace of steps in this epoch, measured from its third step in this process: the first two
  // are warm-up.
  int steps_ = 0;
  Stopwatch since_second_;
  double step_seconds_ = 0;          // 0: not known yet
  double expected_end_seconds_ = 0;  // an estimate to use until step_seconds_ is known
};

// The limit in seconds; 0 if there is none. Also 0 if a head is fitted to features, since there are
// no epochs to skip.
double time_limit_of(const TrainingJob& job);

// The limit as given: "30min".
std::string time_limit_word(const TrainingJob& job);

// The state's time plan, or a new one in which nothing is decided yet; empty without a limit.
std::optional<TimePlan> time_plan_of(const TrainingJob& job, const TrainState& state);

// "30min: 12 epochs fit, …": what was decided, or before that, when it will be.
std::string time_limit_text(const TrainingJob& job, const TimePlan& plan);

// Sets the schedule to the decided number of epochs, and records it for repeat.yaml.
void apply_time_plan(TrainingJob& job, const TimePlan& plan);

}  // namespace kiln
