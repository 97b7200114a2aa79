// Features of all ranks, and what a head says of images that it was not fitted to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "run/inputs/sources.h"
#include "train/evaluation.h"
#include "train/features/feature_pass.h"
#include "train/features/folds.h"

namespace kiln {

// On rank 0 returns the features of all ranks in sample order, as a single process would have them.
// Empty on the other ranks. A collective.
LabeledFeatures gathered(World& world, LabeledFeatures mine);

// Throws Error kInvalidDataset if there are fewer folds than `asked`, the value of --folds.
void require_folds(const Folds& folds, int asked);

// `logits`: [N, C], on the host. Only `labels` and `samples` of `images` are used.
Totals totals_of(const at::Tensor& logits, const std::vector<std::int32_t>& labels);
std::vector<Prediction> predictions_of(const at::Tensor& logits, const LabeledFeatures& images);
// The training images whose labels are probably wrong, most doubtful first; those that a page shows
// have thumbnails. Empty if there are too many classes.
std::vector<JudgedImage> doubtful_images(const Sources& sources, const TransformSpec& pixels,
                                         const at::Tensor& logits, const LabeledFeatures& images);

}  // namespace kiln
