// `kiln train`: the epoch loop. The only place that decides to evaluate, report, stop and save.
#pragma once

#include "base/log.h"
#include "config/run_config.h"
#include "parallel/world.h"

namespace kiln {

// The exit code: 0, or 128 + n after stop signal n. Every rank of `world` calls it; rank 0 writes
// the model.
int run_train(const TrainConfig& config, World& world, Log& log);

}  // namespace kiln
