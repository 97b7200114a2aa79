// What to notice before the first step, and what is known of the images only after an epoch.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "run/inputs/sources.h"
#include "run/prepare/plan.h"

namespace kiln {

// One sentence for each issue to notice before the first step, about the data, the steps or the
// schedule. The same on all ranks, except for notes on a shard.
std::vector<std::string> plan_warnings(const Plan& plan, const Sources& sources);

// Sets what is known once all images have been read, in the first epoch: of `record`, whose
// validation has been counted, `valid_in_train` and `doubts`, which rank 0 also logs. Shares the
// hashes. A collective.
void doubt_accuracy(World& world, Log& log, const Plan& plan, Sources& sources,
                    EpochRecord& record);

// The number of images left over in each epoch because they do not fill a step; 0 if each host has
// its own images.
long long images_left_over(const Plan& plan, const Sources& sources);

}  // namespace kiln
