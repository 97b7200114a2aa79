// Failures of training that end a run, as errors that say what to do.
#pragma once

#include "base/training_record.h"
#include "parallel/ranks/world.h"

namespace kiln {

// The loss of some rank is not finite; `first_nonfinite_step` is this rank's first such step, 0 for
// none. A collective. Throws Error kFailedToCompleteOperation on rank 0 with the first such step of
// all ranks.
[[noreturn]] void throw_diverged(World& world, const StepRecord& at, int first_nonfinite_step);

// Checks the totals of an epoch. Throws Error kInvalidDataset if no image could be decoded,
// kFailedToCompleteOperation if the validation loss is not finite.
void check_epoch(const EpochRecord& record);

}  // namespace kiln
