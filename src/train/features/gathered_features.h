// The features that several ranks have computed, in one place.
#pragma once

#include "parallel/ranks/world.h"
#include "train/features/head_fit.h"

namespace kiln {

// On rank 0 returns the features of all ranks in sample order, as a single process would have them;
// without weights. Empty on the other ranks. A collective.
LabeledFeatures gathered_on_rank_0(World& world, LabeledFeatures mine);

}  // namespace kiln
