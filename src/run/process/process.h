// The environment of a command, and how its failure is reported.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>

#include "base/files.h"
#include "base/log.h"
#include "parallel/ranks/world.h"

namespace kiln {

struct Process {
  Log log;
  Descriptor log_folder;  // see lock_log_folder()
  World world;            // of one rank, until the command calls init()
  // Where error_info.json is written at the end, also on success; empty if it is not written, or
  // written by another process.
  std::optional<std::filesystem::path> error_info;
  std::optional<int> failure_told = {};  // the exit code of a failure that was reported
};

// Reports a failure once: to the other ranks, on the console, in `error_info` if set, and where the
// platform looks for it. Returns the exit code. The lowest failed rank writes error_info.json and
// the platform's note.
int report_exception(const std::exception_ptr& failure,
                     const std::optional<std::filesystem::path>& error_info, World& world,
                     Log& log);

// The same for a failure of the process, the first time that it is called. Call it where a run's
// failure is first caught, while all that the run owns still exists: destroying a communicator
// while other ranks use the GPU makes their work fail with errors that hide the cause, and freeing
// memory of a GPU that waits for other ranks may not return.
int report_exception(const std::exception_ptr& failure, Process& process);

// From now on, a std::bad_alloc that nothing catches ends the process with end_without_memory().
void end_lack_of_memory();

}  // namespace kiln
