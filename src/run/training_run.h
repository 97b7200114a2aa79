// One training run, from a configuration to a model directory: the loop over epochs and the order
// of their halves. What happens within an epoch is in epoch.h.
#pragma once

#include "cli/run_config.h"
#include "run/process/process.h"

namespace kiln {

// Returns the exit code: 0, or 128 + n after stop signal n. A collective; rank 0 writes the model.
int run_training(const TrainConfig& config, Process& process);

}  // namespace kiln
