// `kiln convert`: a folder of images -> an ImageDirectory.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// The exit code. Faults are thrown as Error.
int run(const ConvertConfig& config, Process& process);

}  // namespace kiln
