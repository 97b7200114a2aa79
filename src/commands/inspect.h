// `kiln inspect`: what a directory or a file holds, and whether its images can be decoded.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Prints a table, or one JSON object. The exit status: 1 when `check` found a bad image (or the
// path is one), else 0. Damaged images, which are decoded as far as they go, are listed and do not
// count as bad. Throws what the readers throw, and Error kUserError when the path is nothing that
// kiln knows.
int run(const InspectConfig& config, Process& process);

}  // namespace kiln
