// `kiln report`: the page of a run, made from its metrics.jsonl.
#pragma once

#include "config/run_config.h"
#include "run/process.h"

namespace kiln {

// Of a run that has ended in any way, or has not. Throws Error kInvalidDataset where there is no
// run, kFailedToWriteOutputs.
int run(const ReportConfig& config, Process& process);

}  // namespace kiln
