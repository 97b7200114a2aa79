// --folds where the network itself is trained: which images each of the folds' networks judges.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "run/plan/prepare.h"

namespace kiln {

// Settles the job's `fold_of`, what the folds mean for its options, and their column in the split;
// nothing where there are none, or a layer is fitted to features. Throws Error kUserError for a
// network or images that --freeze backbone cannot have folds of, Error kInvalidDataset for images
// that are too few. A collective.
void settle_folds(TrainingJob& job);

// The line of the plan about the folds.
std::string fold_plan_text(const TrainingJob& job);

// FoldsProgress::logits where no image is judged yet.
at::Tensor empty_fold_logits(const TrainingJob& job);

}  // namespace kiln
