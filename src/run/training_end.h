// When and why training ends, and how that is logged.
#pragma once

#include <string>

#include "run/prepare/prepare.h"
#include "run/run_logger.h"
#include "run/time_limit.h"
#include "train/state.h"

namespace kiln {

// Why training ended; nothing is set after the last epoch.
struct TrainingEnd {
  int signal = 0;                // the stop signal that all ranks acted on; 0: none
  bool out_of_patience = false;  // early stopping
  bool out_of_time = false;      // --time-limit has expired or leaves no time for more epochs

  // "signal", "patience" or "time-limit", for the record; empty after the last epoch.
  std::string early_reason() const;
  // Why nothing is left to train, for a checkpoint: "epochs", "patience" or "time-limit". Empty
  // after a signal, since such a run can be resumed.
  std::string finished_reason() const;

  int exit_code() const { return signal == 0 ? 0 : 128 + signal; }
};

// Whether another epoch must be trained or the current one finished. A run that is out of time
// still makes at least one step and one validation, and validates an epoch that it has begun.
bool has_more_to_train(const TrainingJob& job, const TrainState& state, const TimeLimit& limit);

// Why a run that has nothing more to train has ended.
TrainingEnd end_of_training(const TrainingJob& job, const TrainState& state,
                            const TimeLimit& limit);

// Logs and records why training ended before its last epoch; nothing if it did not.
void log_early_end(const TrainingEnd& end, const TrainingJob& job, const TrainState& state,
                   const TimeLimit& limit, RunLogger& log);

}  // namespace kiln
