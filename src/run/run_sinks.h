// Which sinks a run's numbers go to.
#pragma once

#include "config/run_config.h"
#include "report/run_reporter.h"

namespace kiln {

// One that cannot begin is warned of and left out.
void add_run_sinks(const TrainConfig& config, RunReporter* reporter);

}  // namespace kiln
