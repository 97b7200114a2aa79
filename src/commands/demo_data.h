// `kiln demo-data`: draws labelled images, training and validation, as class folders.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// The exit code. Faults are thrown as Error.
int run_demo_data(const DemoDataConfig& config, Log& log);

}  // namespace kiln
