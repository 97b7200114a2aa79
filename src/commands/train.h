// `kiln train`: what stands around a training run (run/training_run.h): its ranks, their world and
// their log.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Starts the ranks when asked to; otherwise joins the world and runs as one of its ranks. The exit
// code: 0, or 128 + n after stop signal n. Throws Error, Problems, FailedElsewhere, or what the
// libraries throw.
int run(const TrainConfig& config, Process& process);

}  // namespace kiln
