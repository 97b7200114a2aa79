// `kiln launch --ranks N -- train …`, and `kiln train --ranks N`: starts the ranks with mpirun,
// shows what rank 0 says, and when a rank fails tells which, where and how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// What `train --ranks` asks for; `arguments` begin with "train". Empty without --ranks, and in a
// rank that launch started. Throws Error kUserError in a rank of another's MPI job.
std::optional<LaunchConfig> launch_of(const TrainConfig& config,
                                      const std::vector<std::string>& arguments);

// Returns when no process of the job is left: the failing rank's exit code, 128 + n after a stop by
// signal n. A failing rank, or else this, has then written error_info.json. Throws Error when no
// rank could be started.
int run_launch(const LaunchConfig& config, Log& log);

}  // namespace kiln
