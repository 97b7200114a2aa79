// What one validation pass showed, put together from all ranks.
#pragma once

#include <vector>

#include "data/image_set.h"
#include "data/pixel_plan.h"
#include "parallel/world.h"
#include "train/evaluation.h"

namespace kiln {

// `verdicts` are this rank's, on images of `valid`, which the model saw as `pixels` says. All ranks
// call it; whole on rank 0 only.
Judgement judge(World& world, const std::vector<Verdict>& verdicts, const ImageSet& valid,
                const PixelPlan& pixels, int epoch);

}  // namespace kiln
