// Fits the head of a frozen network to the features of its images. The L2 penalty is chosen by
// cross-validation: the one with the lowest loss on images left out of the fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "features/feature_pass.h"
#include "features/folds.h"

namespace kiln {

struct HeadFit {
  at::Tensor weight, bias;  // float32 [C, D], [C]; undefined: stopped early
  double penalty = 0;
  bool is_chosen = false;  // the penalty was cross-validated; false: too few images
  // float32 [N, C], host: each row is computed by a layer fitted without the row's fold, with the
  // penalty that has the lowest loss on the other folds. Undefined if there are no folds.
  at::Tensor out_of_fold_logits;
};

// Without folds, uses the penalty in the middle of the range that is otherwise searched.
// `class_weights` are the weights of images in the loss, by class; empty: all 1. Throws Error
// kFailedToCompleteOperation if features are not finite.
HeadFit fit_head(const LabeledFeatures& images, int num_classes, const Folds& folds,
                 const std::vector<double>& class_weights, const std::function<bool()>& is_stopped);

// float32 [N, C], host.
at::Tensor head_logits(const at::Tensor& rows, const HeadFit& head);

// The memory needed by fit_head() and the features themselves, in bytes.
double fit_memory(std::int64_t num_images, std::int64_t num_features, std::int64_t num_classes);

}  // namespace kiln
