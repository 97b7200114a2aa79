// The features that the ranks have computed, gathered.
#pragma once

#include "features/feature_pass.h"
#include "parallel/ranks/world.h"

namespace kiln {

// On rank 0: those of all ranks, in the order of their samples, as one process has them. Empty on
// the others. A collective.
LabeledFeatures gathered(World& world, LabeledFeatures mine);

}  // namespace kiln
