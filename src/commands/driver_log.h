// The log file of each rank of a command that runs as several processes.
#pragma once

#include <string>

#include "process/process.h"

namespace kiln {

// Opens 70_driver_log_RANK.txt in `log_path`, which `kiln launch` names if a rank fails. If the
// folder cannot be written, logs a warning and returns false, or throws Error
// kFailedToWriteOutputs if the path was `given`.
bool open_driver_log(const std::string& log_path, bool given, Process& process);

}  // namespace kiln
