// What can go wrong while a run is under way, in words that say what to do.
#pragma once

#include <exception>

#include "base/training_record.h"
#include "parallel/world.h"

namespace kiln {

// A loss of some rank is not finite; `first_bad_step` is this rank's first such step, 0 for none. A
// collective. Throws Error kFailedToCompleteOperation on rank 0, with the first such step of all.
[[noreturn]] void throw_diverged(World& world, const StepRecord& at, int first_bad_step);

// Numbers of a whole epoch that nobody can go on with. Throws Error kInvalidDataset when no image
// could be decoded, kFailedToCompleteOperation when the validation loss is not finite.
void check_epoch(const EpochRecord& record, int batch_size);

// `failure` itself, or an Error with a remedy where the system had no more of something.
std::exception_ptr explained(const std::exception_ptr& failure);

}  // namespace kiln
