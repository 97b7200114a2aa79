// What to notice before the first step, and what is known of the images only after an epoch.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "parallel/ranks/world.h"
#include "run/inputs/sources.h"
#include "run/prepare/plan.h"

namespace kiln {

// One sentence for each issue to notice before the first step, about the data, the steps or the
// schedule. The same on all ranks, except for notes on a shard.
std::vector<std::string> plan_warnings(const Plan& plan, const Sources& sources);

// Whether training and validation data are the same folder or one is inside the other.
bool share_a_folder(const Sources& sources);

// The number of validation images that are also training images; rank 0 warns about them. Call once
// both sets have been read. A collective.
long long warn_of_shared_images(World& world, Log& log, const Sources& sources,
                                long long num_valid);

// Warns if the initial weights were trained on images that judge this run, as far as rank 0 has
// read them. Call it on rank 0, after an epoch.
void warn_of_seen_images(Log& log, const Sources& sources);

// The number of images left over in each epoch because they do not fill a step; 0 if each host has
// its own images.
long long images_left_over(const Plan& plan, const Sources& sources);

}  // namespace kiln
