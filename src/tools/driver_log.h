// The log file of each rank of a command that runs as several processes.
#pragma once

#include <string>

#include "run/process/process.h"

namespace kiln {

// Locks the folder `log_path`, by rank 0's log file in it, for as long as `process.log_folder`
// holds the lock. Says so if it has to wait for another run's end, and if the file system has no
// locks. Throws Error kFailedToWriteOutputs if another run writes its logs there; error_info.json
// in the folder is left to that run.
void lock_log_folder(const std::string& log_path, Process& process);

// For rank 0, locks the folder first. Opens 70_driver_log_RANK.txt in `log_path`, which `kiln
// launch` names if a rank fails. If the folder cannot be written, logs a warning and returns false,
// or throws Error kFailedToWriteOutputs if the path was `given`.
bool open_driver_log(const std::string& log_path, bool given, Process& process);

}  // namespace kiln
