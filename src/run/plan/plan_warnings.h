// Warnings about a plan that may not be what its author wants.
#pragma once

#include <string>
#include <vector>

#include "run/plan/prepare.h"

namespace kiln {

// One sentence for each thing to notice before the first step: about the data, the steps, the
// schedule. The same on all ranks, except for notes on a shard.
std::vector<std::string> plan_warnings(const TrainingJob& job);

// Whether training and validation data are one folder, or one lies inside the other.
bool share_a_folder(const TrainingInputs& inputs);

// How many of all validation images are also training images, once both sets have been read; rank 0
// warns of them. A collective.
long long warn_of_shared_images(const TrainingJob& job, long long num_valid);

// Images that no step of an epoch takes, as they do not fill one; 0 where each host has its own.
long long images_left_over(const TrainingJob& job);

}  // namespace kiln
