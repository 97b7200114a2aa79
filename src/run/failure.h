// How a failure of the run is told, once: to the other ranks, on the console, in error_info.json
// and where the platform looks for it.
#pragma once

#include <exception>
#include <filesystem>

#include "base/log.h"
#include "parallel/world.h"

namespace kiln {

// Whether and where this run owes an error_info.json; filled as early as it is known.
struct RunReport {
  bool wanted = false;
  std::filesystem::path path;
};

// Tells the other ranks, once. To be called where a run's failure is caught first, while its
// communicators still live: the others' work on GPUs that a communicator is torn down under ends in
// faults that hide what happened. tell_failure() is still to come.
void announce_failure(const std::exception_ptr& failure, World& world);

// Returns the exit code. Of several ranks the lowest that failed writes error_info.json
// and the platform's note.
int tell_failure(const std::exception_ptr& failure, const RunReport& report, World& world,
                 Log& log);

}  // namespace kiln
