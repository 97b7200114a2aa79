// `kiln compare`: several runs as one table and one page.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// Throws what run_report() throws.
int run_compare(const CompareConfig& config, Log& log);

}  // namespace kiln
