// `kiln launch --ranks N -- train …`, and commands with --ranks N: starts the ranks with mpirun,
// shows what rank 0 says, and when a rank fails tells which, where and how.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// What `train --ranks` and `bench collective --ranks` ask for; empty without --ranks, in a rank
// that launch started, and where this process is enough.
std::optional<LaunchConfig> launch_of(const RanksConfig& ranks, const std::string& log_path,
                                      bool log_path_given);

// Returns when no process of the job is left: the failing rank's exit code, 128 + n after a stop by
// signal n. A failing rank, or else this, has then written error_info.json. Throws Error when no
// rank could be started.
int run(const LaunchConfig& config, Process& process);

}  // namespace kiln
