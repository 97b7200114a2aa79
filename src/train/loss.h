// The training objective, and the reported loss. These are two functions: an objective that helps
// training need not be the number to compare.
#pragma once

#include <ATen/core/Tensor.h>

#include "train/recipe.h"

namespace kiln {

// The objective summed over the images of logits [N, C] and labels [N] (int64): a scalar with a
// graph, of the logits' type.
using TrainingLoss = at::Tensor (*)(const at::Tensor& logits, const at::Tensor& labels);

// A row of the table in loss.cpp. Throws InternalError for a name that no row has.
TrainingLoss find_training_loss(const LossPlan& plan);

// The sum of the images' cross-entropies, without a graph; used by logs, reports and the choice of
// the best epoch.
at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace kiln
