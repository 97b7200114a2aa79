// From arguments to the command that they name.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "parallel/world.h"
#include "run/failure.h"

namespace kiln {

// Runs the command and returns its exit code; `train` joins `world`. Throws Error, Problems, or
// what the libraries throw.
int dispatch(const std::vector<std::string>& arguments, World& world, Log& log, RunReport* report);

}  // namespace kiln
