// `kiln bench collective`: how long sums over the ranks take, beside MPI's own on the same bytes.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Starts the ranks when asked to, or joins those that were started, which must be several (Error
// kUserError otherwise). Rank 0 prints one JSON object; the medians in it are rank 0's, from call
// to result.
int run(const BenchCollectiveConfig& config, Process& process);

}  // namespace kiln
