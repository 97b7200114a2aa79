// Answers of models for training images that they have not learned from, in the form of the record.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/training_record.h"
#include "features/feature_pass.h"
#include "features/folds.h"
#include "inputs/training_inputs.h"
#include "train/evaluation.h"

namespace kiln {

// Throws Error kInvalidDataset where there are fewer folds than --folds asks for.
void require_folds(const Folds& folds, int asked);

// `logits` [N, C], on the host; of the images, the labels and samples alone are read.
Totals totals_of(const at::Tensor& logits, const std::vector<std::int32_t>& labels);
std::vector<Prediction> predictions_of(const at::Tensor& logits, const LabeledFeatures& images);
// Those training images whose labels are probably wrong, most doubtful first, so many of them
// with thumbnails as a page shows. None where there are too many classes.
std::vector<JudgedImage> doubtful_images(const TrainingInputs& inputs, const at::Tensor& logits,
                                         const LabeledFeatures& images);

}  // namespace kiln
