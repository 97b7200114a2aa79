// `kiln demo-data`: draws labelled images, training and validation, as class folders.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// The exit code. Faults are thrown as Error.
int run(const DemoDataConfig& config, Process& process);

}  // namespace kiln
