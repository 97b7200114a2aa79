// Gathers the features computed by all ranks.
#pragma once

#include "parallel/ranks/world.h"
#include "train/features/feature_pass.h"

namespace kiln {

// On rank 0 returns the features of all ranks in sample order, as a single process would have them.
// Empty on the other ranks. A collective.
LabeledFeatures gathered(World& world, LabeledFeatures mine);

}  // namespace kiln
