// The environment of a command, and how its failure is reported.
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
  // Where error_info.json is written at the end, also on success; empty: nowhere, or another
  // process writes it.
  std::optional<std::filesystem::path> error_info;
};

// Notifies the other ranks, once. Call it where a run's failure is first caught, while its
// communicators still exist: destroying one during other ranks' GPU work makes that work fail with
// errors that hide the cause. Call tell_failure() afterwards as well.
void announce_failure(const std::exception_ptr& failure, World& world);

// Reports a failure once: to the other ranks, on the console, in `error_info` if set, and where the
// platform looks for it. Returns the exit code. The lowest failed rank writes error_info.json and
// the platform's note.
int tell_failure(const std::exception_ptr& failure,
                 const std::optional<std::filesystem::path>& error_info, World& world, Log& log);

}  // namespace kiln
