// `kiln inspect`: what a directory or a file holds, and whether its images can be decoded.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// Prints a table, or one JSON object. The exit status: 1 when `check` found a bad image (or the
// path is one), else 0. Damaged images, which are decoded as far as they go, are listed and do not
// count as bad. Throws what the readers throw, and Error kUserError when the path is nothing that
// kiln knows.
int run_inspect(const InspectConfig& config, Log& log);

}  // namespace kiln
