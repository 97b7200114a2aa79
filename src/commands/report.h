// `kiln report`: the page of a run, made from its metrics.jsonl.
#pragma once

#include "base/log.h"
#include "config/run_config.h"

namespace kiln {

// Of a run that has ended in any way, or has not. Throws Error kInvalidDataset where there is no
// run, kFailedToWriteOutputs.
int run_report(const ReportConfig& config, Log& log);

}  // namespace kiln
