// `kiln train`: the epoch loop. The only place that decides to evaluate, report, stop and save.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// The exit code: 0, or 128 + n after stop signal n.
int run_train(const TrainConfig& config, Log& log);

}  // namespace kiln
