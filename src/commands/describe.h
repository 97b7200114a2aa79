// `kiln describe`: prints a command's options in a form that a platform reads.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Error kUserError for a component form of a command that is no step of a pipeline.
int run(const DescribeConfig& config, Process&);

}  // namespace kiln
