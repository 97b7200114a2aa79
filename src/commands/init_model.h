// kiln init-model: a network by name, fresh or with given weights, as an UntrainedModelDirectory.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Returns the exit code. Errors: 162 for `pretrained` without weights, 159 for weights that cannot
// be read or belong to another network, 160 for the output; those that can be found together are
// thrown together.
int run(const InitModelConfig& config, Process& process);

}  // namespace kiln
