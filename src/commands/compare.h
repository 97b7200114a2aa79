// `kiln compare`: several runs as one table and one page.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Throws what `kiln report` throws.
int run(const CompareConfig& config, Process& process);

}  // namespace kiln
