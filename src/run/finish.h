// The end of a run: the model directory.
#pragma once

#include <memory>

#include "run/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

// Rank 0 writes the best epoch's model and tells where it is; without one that is told. What only
// training needs is given back first, as files are made in memory. Throws Error
// kFailedToWriteOutputs.
void save(TrainingJob& job, std::unique_ptr<TrainState> state, RunLogger& log);

}  // namespace kiln
