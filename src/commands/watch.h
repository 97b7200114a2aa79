// `kiln watch`: follows a running job by its metrics.jsonl.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Until the run has ended or a stop signal comes.
int run(const WatchConfig& config, Process& process);

}  // namespace kiln
