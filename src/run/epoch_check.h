// Failures of training that end a run, as errors that say what to do.
#pragma once

#include "parallel/ranks/world.h"
#include "record/training_record.h"

namespace kiln {

// Call on all ranks when a loss was not finite on any of them; `first_nonfinite_step` is this
// rank's first such step, 0 if none. A collective. Throws Error kFailedToCompleteOperation on rank
// 0, naming the first such step over all ranks.
[[noreturn]] void throw_diverged(World& world, const StepRecord& at, int first_nonfinite_step);

// Checks the totals of an epoch. Throws Error kInvalidDataset if no image could be decoded,
// kFailedToCompleteOperation if the validation loss is not finite.
void check_epoch(const EpochRecord& record);

}  // namespace kiln
