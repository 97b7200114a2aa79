// `kiln convert`: a folder of images -> an ImageDirectory.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// The exit code. Faults are thrown as Error.
int run_convert(const ConvertConfig& config, Log& log);

}  // namespace kiln
