// One training run, from a configuration to a model directory. This is the only code that decides
// when to evaluate, keep, report, stop and save.
#pragma once

#include "cli/run_config.h"
#include "run/process/process.h"

namespace kiln {

// Returns the exit code: 0, or 128 + n after stop signal n. A collective; rank 0 writes the model.
int run_training(const TrainConfig& config, Process& process);

}  // namespace kiln
