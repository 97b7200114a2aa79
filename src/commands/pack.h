// `kiln pack`: images -> tar shards and their index.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

int run(const PackConfig& config, Process& process);

}  // namespace kiln
