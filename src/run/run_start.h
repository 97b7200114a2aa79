// What a training run sets out to do, for those who read of it later.
#pragma once

#include "parallel/world.h"
#include "report/run_record.h"
#include "run/training_inputs.h"

namespace kiln {

// `device`, `versions` and `num_parameters` are left to the caller. Counts are of all parts. All
// ranks call it.
RunStart run_start(const TrainConfig& config, World& world, const TrainingInputs& inputs);

}  // namespace kiln
