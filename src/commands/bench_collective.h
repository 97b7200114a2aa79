// `kiln bench collective`: how long sums over the ranks take, beside MPI's own on the same bytes.
#pragma once

#include "base/log.h"
#include "config/run_config.h"
#include "parallel/world.h"

namespace kiln {

// Joins `world`, which must have several ranks (Error kUserError otherwise). Rank 0 prints one JSON
// object; the medians in it are rank 0's, from call to result.
int run_bench_collective(const BenchCollectiveConfig& config, World& world, Log& log);

}  // namespace kiln
