// What happens between a run's plan and its first step: see begin() in prepare.h.
#pragma once

#include "cli/run_config.h"
#include "record/run_record.h"
#include "run/run.h"

namespace kiln {

// The host memory, in bytes, that rank 0 needs for the weights of the best epoch and, if
// `writes_checkpoints`, for a checkpoint, which also holds the optimizer's state (AdamW two numbers
// per weight, SGD one) and the averages of --ema.
long long bytes_of_copies(const TrainState& state, bool writes_checkpoints);

// What the record says of the run before its first step (description.cpp). A collective.
RunStart describe_run(const TrainConfig& config, const Run& run);

}  // namespace kiln
