// When training ends, why, and what the log says of it.
#pragma once

#include <string>

#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "run/time_limit.h"
#include "train/state.h"

namespace kiln {

// Why training ended; nothing is set after the last epoch.
struct TrainingEnd {
  int signal = 0;                // the stop signal that all ranks acted on; 0: none
  bool out_of_patience = false;  // early stopping
  bool out_of_time = false;      // --time-limit is over, or fits no more epochs

  // "signal", "patience" or "time-limit", as the record has it; empty after the last epoch.
  std::string early_reason() const;
  // Why nothing is left to train, as a checkpoint has it: "epochs", "patience" or "time-limit".
  // Empty after a signal: such a run can be continued.
  std::string finished_reason() const;

  int exit_code() const { return signal == 0 ? 0 : 128 + signal; }
};

// Whether another epoch is to be trained, or the one that has begun to be finished. A run out of
// time makes at least a step and a validation, and validates what it has begun.
bool has_more_to_train(const TrainingJob& job, const TrainState& state, const TimeLimit& limit);

// The end of a run that has no more to train.
TrainingEnd end_of_training(const TrainingJob& job, const TrainState& state,
                            const TimeLimit& limit);

// Logs and records why training ended before its last epoch; nothing if it did not.
void log_early_end(const TrainingEnd& end, const TrainingJob& job, const TrainState& state,
                   const TimeLimit& limit, RunLogger& log);

}  // namespace kiln
