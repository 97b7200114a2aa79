// The end of an epoch's training: its numbers over all ranks, whose models are made one again.
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

// The same over all ranks, whose models are identical from here on. A collective.
void join_training(const TrainingJob& job, TrainState& state, EpochRecord& record);

// The loss scale begins high, so the first epoch may skip some steps: many are warned of.
void warn_of_skipped_steps(const EpochRecord& record, World& world, Log& log);

}  // namespace kiln
