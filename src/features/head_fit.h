// The head of a frozen network, fitted to the features of its images. Its penalty is the one whose
// layers say the most of images that they were not fitted to.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "features/feature_pass.h"
#include "features/folds.h"

namespace kiln {

struct HeadFit {
  at::Tensor weight, bias;  // float32 [C, D], [C]; undefined: it was stopped
  double penalty = 0;
  bool is_chosen = false;  // the penalty; else there were too few images to choose it
  // float32 [N, C], host: each row by a layer that was fitted without the row's fold, with the
  // penalty that does best for the images of the other folds. Undefined where there are no folds.
  at::Tensor out_of_fold_logits;
};

// Where there are no folds, the penalty is in the middle of those that are tried. `class_weights`:
// of an image in the objective, by its class; empty: all 1. Throws Error
// kFailedToCompleteOperation for features that are not finite.
HeadFit fit_head(const LabeledFeatures& images, int num_classes, const Folds& folds,
                 const std::vector<double>& class_weights, const std::function<bool()>& is_stopped);

// float32 [N, C], host.
at::Tensor head_logits(const at::Tensor& rows, const HeadFit& head);

// In bytes, of fit_head() and of the features themselves.
double fit_memory(std::int64_t num_images, std::int64_t num_features, std::int64_t num_classes);

}  // namespace kiln
