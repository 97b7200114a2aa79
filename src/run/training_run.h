// One training run, from a configuration to a model directory: the only place that decides to
// evaluate, keep, report, stop and save.
#pragma once

#include "base/log.h"
#include "config/run_config.h"
#include "parallel/world.h"

namespace kiln {

// The exit code: 0, or 128 + n after stop signal n. Every rank of `world` calls it; rank 0 writes
// the model.
int run_training(const TrainConfig& config, World& world, Log& log);

}  // namespace kiln
