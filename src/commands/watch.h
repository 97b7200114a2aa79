// `kiln watch`: follows a running job by its metrics.jsonl.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// Until the run has ended or a stop signal comes.
int run_watch(const WatchConfig& config, Log& log);

}  // namespace kiln
