// The end of an epoch's training: sums its metrics over all ranks and makes their models equal
// again.
#pragma once

#include "base/log.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "run/prepare/prepare.h"
#include "train/epoch.h"
#include "train/state.h"

namespace kiln {

// The training half of an epoch's record for this rank, taken after all ranks have finished their
// steps. A collective. Throws as throw_diverged() if a loss was not finite.
EpochRecord end_training(World& world, TrainEpoch& training);

// Sums the record over all ranks and averages the tensors that differ between their models, which
// are identical afterwards. A collective. Throws as require_equal_replicas().
void sum_over_ranks(const TrainingJob& job, TrainState& state, EpochRecord& record);

// Warns if many steps of the epoch were skipped. A few are expected in the first epoch, since the
// loss scale starts high. Only rank 0 warns.
void warn_of_skipped_steps(const EpochRecord& record, World& world, Log& log);

}  // namespace kiln
