// Plans --folds for a run that trains the network itself: which images belong to which fold.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "run/plan/prepare.h"

namespace kiln {

// Sets the job's `fold_of`, the options that folds imply, and the fold column of the split. Does
// nothing without --folds or if a layer is fitted to features. Throws Error kUserError if the
// network or the transforms do not allow folds with --freeze backbone, Error kInvalidDataset if
// there are too few images. A collective.
void settle_folds(TrainingJob& job);

// The plan's line about the folds.
std::string fold_plan_text(const TrainingJob& job);

// Initial value of FoldsProgress::logits: no image is judged yet.
at::Tensor empty_fold_logits(const TrainingJob& job);

}  // namespace kiln
