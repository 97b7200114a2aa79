// The plan of a training run, for the console and the record, and what memory it will take.
#pragma once

#include "report/record/run_record.h"
#include "run/plan/memory_advice.h"
#include "run/plan/prepare.h"

namespace kiln {

// Image counts include all shards. A collective.
RunStart describe_run(const TrainingJob& job, const TrainState& state);

// Of rank 0, on the host: the weights of the best epoch, and a checkpoint, with all that it holds
// beside the weights: what the optimizer keeps (AdamW two numbers a weight, SGD one) and the
// averages of --ema.
long long bytes_of_copies(const TrainState& state, bool writes_checkpoints);

// With those copies, which are still to come.
MemoryUse memory_plan(const TrainingJob& job, const TrainState& state);

}  // namespace kiln
