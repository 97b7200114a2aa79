// Before the first step: the start of a run's record, and what is expected of the run.
#pragma once

#include "run/forecast.h"
#include "run/plan/memory_advice.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

// Tells the plan of the run and warns of what may not be wanted; a resumed run also tells from
// where, and takes over the record in its checkpoint. A collective. Throws as RunLogger::resume().
void begin_record(TrainingJob& job, const TrainState& state, RunLogger& log);

// What a forecast needs to know of a run whose number of epochs is known.
RunLength run_length(const TrainingJob& job);

// The bytes that the host of rank 0 takes for the weights of the best epoch and for a checkpoint,
// with all that it holds beside the weights: what the optimizer keeps (AdamW two numbers a weight,
// SGD one) and the averages of --ema.
long long bytes_of_copies(const TrainState& state, bool writes_checkpoints);

// What is known of this rank's memory before the first step. Caches and the copies are still to
// come.
MemoryUse memory_plan(const TrainingJob& job, const TrainState& state);

}  // namespace kiln
