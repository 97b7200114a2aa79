// The plan of a training run, for the console and the record.
#pragma once

#include "record/run_record.h"
#include "run/prepare/prepare.h"
#include "train/state.h"

namespace kiln {

// Image counts include all shards. A collective.
RunStart describe_run(const TrainingJob& job, const TrainState& state);

}  // namespace kiln
