// What to notice before the first step, and what is known of the images only after an epoch.
#pragma once

#include <string>
#include <vector>

#include "parallel/ranks/world.h"
#include "run/inputs/sources.h"
#include "run/prepare/plan.h"
#include "run/run_logger.h"

namespace kiln {

// One sentence for each issue to notice before the first step, about the data, the steps or the
// schedule. The same on all ranks, except for notes on a shard.
std::vector<Warning> plan_warnings(const Plan& plan, const Sources& sources);

// What is known once all images have been read, of which rank 0 warns: images with the same bytes
// in both sets or under several labels, and images that the initial weights were trained on.
// Returns the number of validation images that are also training images, of `num_valid` on all
// ranks; elsewhere 0. Shares the hashes. A collective.
long long warn_of_twins(World& world, RunLogger& log, const Plan& plan, Sources& sources,
                        long long num_valid);

// The number of images left over in each epoch because they do not fill a step; 0 if each host has
// its own images.
long long images_left_over(const Plan& plan, const Sources& sources);

}  // namespace kiln
