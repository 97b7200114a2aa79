// Warnings about a plan that may not be what the user wants.
#pragma once

#include <string>
#include <vector>

#include "run/prepare/prepare.h"

namespace kiln {

// One sentence for each issue to notice before the first step, about the data, the steps or the
// schedule. The same on all ranks, except for notes on a shard.
std::vector<std::string> plan_warnings(const TrainingJob& job);

// Whether training and validation data are the same folder or one is inside the other.
bool share_a_folder(const TrainingInputs& inputs);

// The number of validation images that are also training images; rank 0 warns about them. Call once
// both sets have been read. A collective.
long long warn_of_shared_images(const TrainingJob& job, long long num_valid);

// The number of images left over in each epoch because they do not fill a step; 0 if each host has
// its own images.
long long images_left_over(const TrainingJob& job);

}  // namespace kiln
