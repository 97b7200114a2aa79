// What a command runs in, and how its failure is told.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "parallel/ranks/world.h"

namespace kiln {

struct Process {
  Log log;
  World world;  // of one, until the command joins others
  // Where error_info.json goes at the end, after a success too; empty: nowhere, or another process
  // writes it.
  std::optional<std::filesystem::path> error_info;
};

// Tells the other ranks, once. To be called where a run's failure is caught first, while its
// communicators still live: tearing one down under other ranks' GPU work makes that work fail with
// errors that hide the cause. Call tell_failure() afterwards as well.
void announce_failure(const std::exception_ptr& failure, World& world);

// Tells a failure once: to the other ranks, on the console, in `error_info` where there is one, and
// where the platform looks for it. Returns the exit code. Of several ranks the lowest that failed
// writes error_info.json and the platform's note.
int tell_failure(const std::exception_ptr& failure,
                 const std::optional<std::filesystem::path>& error_info, World& world, Log& log);

}  // namespace kiln
