// The plan of a training run, for the console and the record, and what memory it will take.
#pragma once

#include "report/record/run_record.h"
#include "run/plan/memory_advice.h"
#include "run/plan/prepare.h"

namespace kiln {

// Image counts include all shards. A collective.
RunStart describe_run(const TrainingJob& job, const TrainState& state);

// The weights' copies of the best epoch, and of a checkpoint with the optimizer's state.
MemoryUse memory_plan(const TrainingJob& job, const TrainState& state);

}  // namespace kiln
