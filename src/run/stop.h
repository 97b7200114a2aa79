// When training ends: after its epochs or steps, for lack of patience or of time, or by a signal.
//
// --time-limit: the learning rate of the first epoch does not depend on how many epochs follow. So
// the first epoch is trained and timed, and then the schedule is set to the number of epochs that
// fit. If epochs take longer than expected, the limit is reached within an epoch: no further step
// is made, but validation still runs, for which time was reserved.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/system.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "record/vocabulary.h"
#include "run/run_logger.h"
#include "run/vote.h"
#include "train/state.h"

namespace kiln {

// How long a run was asked to be. Epochs count from 1.
struct Length {
  int epochs = 1;          // of the schedule, by --epochs or --steps; a part counts as one
  int first_epochs = 0;    // before those of the schedule: with --auto, the first fits the head
  std::int64_t steps = 0;  // --steps, which may end training before the schedule ends; 0: not given
  std::int64_t steps_per_epoch = 0;

  // The optimizer steps in the epochs before this one, which are complete.
  std::int64_t steps_before(int epoch) const {
    return (epoch - 1 - first_epochs) * steps_per_epoch;
  }
  // The steps of an epoch that is trained; with --steps the last may have fewer than the others.
  std::int64_t steps_of(int epoch) const {
    return steps == 0 ? steps_per_epoch : std::min(steps - steps_before(epoch), steps_per_epoch);
  }
  // The epochs that --steps needs.
  int epochs_for_steps() const { return (steps + steps_per_epoch - 1) / steps_per_epoch; }
  // The last epoch that is trained, if the schedule has this many.
  int last_epoch(int scheduled) const {
    return first_epochs + (steps == 0 ? scheduled : std::min(scheduled, epochs_for_steps()));
  }
};

// When a run ends early. Plain values, the same on all ranks.
struct StopRule {
  Length length;
  double time_limit_s = 0;           // 0: none
  std::string time_limit_word = {};  // as given: "30min"
  int patience = 3;                  // epochs
  double warmup_epochs = 0;
  bool is_automatic = false;  // --auto: has a model before the epochs of the schedule
  bool writes_checkpoints = false;
  // Validation batches of this rank, the last of which may be smaller.
  double validation_batches = 0;
  int accumulate = 1;     // batches per step
  double features_s = 0;  // of the limit, for the features of the saved model
};

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

// Every rank has one and calls it in lockstep. Rank 0's clock decides; the other ranks learn the
// decisions by votes and broadcasts. What it decides is in the state's progress. One thread.
class Stop {
 public:
  // All arguments must outlive it. The state must have been restored.
  Stop(const StopRule& rule, World& world, const RunClock& clock, TrainState& state, Log& console,
       RunLogger& log);

  // Call after the record has begun: a resumed run keeps the length that was decided earlier, and
  // may have no time left. A collective.
  void begin(bool is_resumed);

  // Epochs of the schedule, and the last that is trained, as far as that is decided.
  int scheduled_epochs() const;
  int last_epoch() const { return rule_.length.last_epoch(scheduled_epochs()); }
  bool has_time_limit() const { return rule_.time_limit_s > 0; }

  // The epoch to train next, from where the state is; none if training has ended.
  std::optional<int> next_epoch() const;
  // Whether the epoch has had its last step, though some are left. It always has one.
  bool makes_no_step() const { return is_out_of_time() && state_.epoch.steps > 0; }
  // Acts on the vote of all ranks.
  void add_votes(const Vote& all);
  // Whether a stop signal ends the run now.
  bool now() const { return signal_ != 0; }

  // Call before the first step of an epoch that is expected to take this long. Ends training if
  // there is not enough time for its validation and half of its training. A collective.
  void end_unless_epoch_fits(double train_seconds, double valid_seconds);
  // Call after each step, and after the last of an epoch.
  void count_step();
  void add_last_step() { since_last_step_ = {}; }
  // For this rank's vote: whether there is no time left for another step and for what must follow
  // it.
  bool leaves_no_step() const;
  // Call after an epoch has been recorded: the state continues with the next. After the first
  // epoch, decides the number of epochs. A collective.
  void end_epoch(const EpochRecord& record);

  // After training: how many images a pass without steps may have in the time that was reserved for
  // it, if validation has `num_valid`. Measured by this rank.
  double images_in_time(double num_valid) const;
  // Whether no further step is made, for lack of time; the same on all ranks.
  bool is_out_of_time() const { return has_time_limit() && plan().is_over; }
  // "30min: 12 epochs fit, …": what was decided, or before that, when it will be. Counts all
  // epochs, as every text does, also that of the fitted head.
  std::string time_text() const;

  // After training.
  // "signal", "patience" or "time-limit", for the record; empty after the last epoch.
  std::string early_reason() const;
  // Why nothing is left to train, for a checkpoint: "epochs", "patience" or "time-limit". Empty
  // after a signal, since such a run can be resumed.
  std::string finished_reason() const;
  // What ended training early, for the log. `kept` says which epoch is kept: "the last one".
  std::string early_text(const std::string& kept, bool can_resume) const;
  int exit_code() const { return now() ? 128 + signal_ : 0; }

 private:
  TimePlan& plan() { return *state_.progress.time_plan; }
  const TimePlan& plan() const { return *state_.progress.time_plan; }
  bool is_out_of_patience() const;
  bool has_ended_for_time() const;
  bool leaves_fine_tuning_out() const;
  double seconds_left() const { return rule_.time_limit_s - closing_s_ - clock_.seconds_used(); }
  double end_seconds() const;
  bool has_more_steps() const;
  void end_for_time();
  void decide(const EpochRecord& record);
  void record_found() const;
  std::string time_end_text() const;

  const StopRule& rule_;
  World& world_;
  const RunClock& clock_;
  TrainState& state_;
  Log& console_;
  RunLogger& log_;
  int signal_ = 0;
  double closing_s_ = 0;
  // The pace of steps in this epoch, measured from its third step in this process: the first two
  // are warm-up.
  int steps_ = 0;
  Stopwatch since_second_, since_last_step_;
  double step_seconds_ = 0;          // 0: not known yet
  double expected_end_seconds_ = 0;  // an estimate to use until step_seconds_ is known
};

}  // namespace kiln
