// What a training run sets out to do, for the console and for those who read of it later.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"
#include "run/prepare.h"

namespace kiln {

// Counts of images are of all shards. A collective.
RunStart describe_run(const TrainingJob& job, const TrainState& state);

// What in the plan may not be what its author wants, a sentence each. The same on all ranks, but
// for notes on a shard.
std::vector<std::string> plan_warnings(const TrainingJob& job);

}  // namespace kiln
