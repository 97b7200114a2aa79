// `kiln launch --ranks N -- train …`, and commands with --ranks N: starts the ranks with mpirun,
// shows what rank 0 says, and when a rank fails tells which, where and how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// Whether this process is a rank that run_launch() started. Throws Error kUserError in a rank of
// another's MPI job.
bool is_launched();

// Whether `ranks` (0: auto) are more than this process: auto without a GPU to train on is not.
bool needs_launch(int ranks, DeviceChoice device);

// What `train --ranks` and `bench collective --ranks` ask for; empty without --ranks, in a rank
// that launch started, and where this process is enough. `wanted` says the rest.
std::optional<LaunchConfig> launch_of(std::optional<int> ranks, LaunchConfig wanted);

// Returns when no process of the job is left: the failing rank's exit code, 128 + n after a stop by
// signal n. A failing rank, or else this, has then written error_info.json. Throws Error when no
// rank could be started.
int run_launch(const LaunchConfig& config, Log& log);

}  // namespace kiln
