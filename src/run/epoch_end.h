// The end of an epoch's training: its numbers are summed over all ranks, and their models made
// equal again.
#pragma once

#include "base/log.h"
#include "base/training_record.h"
#include "parallel/ranks/world.h"
#include "run/plan/prepare.h"
#include "train/epoch.h"
#include "train/state.h"

namespace kiln {

// This rank's training half of an epoch's record, taken after all ranks finished their steps. A
// collective. Throws as throw_diverged() where a loss was not finite.
EpochRecord end_training(World& world, TrainEpoch& training);

// Sums the record over all ranks, and averages what differs between their models, which are
// identical from here on. A collective. Throws as require_equal_replicas().
void join_training(const TrainingJob& job, TrainState& state, EpochRecord& record);

// Warns if many steps of the epoch were skipped. A few are expected in the first one, as the loss
// scale begins high. On rank 0.
void warn_of_skipped_steps(const EpochRecord& record, World& world, Log& log);

}  // namespace kiln
