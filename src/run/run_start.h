// What happens before the first step: starts a run's record and estimates its length and memory
// use.
#pragma once

#include "run/forecast.h"
#include "run/prepare/memory_advice.h"
#include "run/prepare/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

// Logs the run's plan and warns of anything that may be unintended. A resumed run also logs where
// it resumes, and continues the record in its checkpoint. A collective. Throws as
// RunLogger::resume().
void begin_record(TrainingJob& job, const TrainState& state, RunLogger& log);

// The input of Forecast, for a run whose number of epochs is known.
RunLength run_length(const TrainingJob& job);

// The host memory, in bytes, that rank 0 needs for the weights of the best epoch and, if
// `writes_checkpoints`, for a checkpoint, which also holds the optimizer's state (AdamW two numbers
// per weight, SGD one) and the averages of --ema.
long long bytes_of_copies(const TrainState& state, bool writes_checkpoints);

// What is known about this rank's memory before the first step. `to_come` covers caches and copies
// of the weights.
MemoryUse memory_plan(const TrainingJob& job, const TrainState& state);

}  // namespace kiln
