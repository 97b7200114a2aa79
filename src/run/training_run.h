// One training run, from a configuration to a model directory: the only place that decides to
// evaluate, keep, report, stop and save.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// The exit code: 0, or 128 + n after stop signal n. Every rank of the world calls it; rank 0 writes
// the model.
int run_training(const TrainConfig& config, Process& process);

}  // namespace kiln
