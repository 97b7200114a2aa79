// The log file of each rank of a command that several processes run together.
#pragma once

#include <string>

#include "process/process.h"

namespace kiln {

// 70_driver_log_RANK.txt in `log_path`, where `kiln launch` names it if a rank fails. A folder that
// cannot be written is a warning, or Error kFailedToWriteOutputs if it was `given`.
void open_driver_log(const std::string& log_path, bool given, Process& process);

}  // namespace kiln
