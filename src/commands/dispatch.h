// From arguments to the command that they name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/log.h"
#include "parallel/world.h"

namespace kiln {

// Whether and where this run owes an error_info.json; filled as early as it is known.
struct RunReport {
  bool wanted = false;
  std::filesystem::path path;
};

// Runs the command and returns its exit code; `train` joins `world`. Throws Error, Problems, or
// what the libraries throw.
int dispatch(const std::vector<std::string>& arguments, World& world, Log& log, RunReport* report);

}  // namespace kiln
