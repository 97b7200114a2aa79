// `kiln pack`: images -> tar shards and their index.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

int run_pack(const PackConfig& config, Log& log);

}  // namespace kiln
