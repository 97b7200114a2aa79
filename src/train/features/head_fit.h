// Fits the head of a frozen network to the features of its images. The L2 penalty is chosen by
// cross-validation: the one with the lowest loss on images left out of the fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "train/features/feature_pass.h"
#include "train/features/folds.h"

namespace kiln {

struct HeadFit {
  at::Tensor weight, bias;  // float32 [C, D], [C]; undefined: stopped early
  double penalty = 0;
  bool is_chosen = false;  // the penalty was cross-validated; false: too few images, or no time
  bool is_cut = false;     // by a time limit: the head may not be the best one
  // float32 [N, C], host: each row is computed by a layer fitted without the row's fold, with the
  // penalty that has the lowest loss on the other folds. Undefined if there are no folds.
  at::Tensor out_of_fold_logits;
};

// What a fit asks and tells while it works, several times a second.
struct FitWatch {
  std::function<bool()> is_stopped;  // gives the fit up; once true, it stays so
  // The share of the time for the fit that has passed: at 1 it ends with what it has. Empty: no
  // limit.
  std::function<double()> time_share = {};
  // Before each of the layers that are fitted: how many are done, and of how many at most.
  std::function<void(int done, int most)> at_layer = [](int, int) {};
};

// Without folds, uses the penalty in the middle of the range that is otherwise searched.
// `class_weights` are the weights of images in the loss, by class; empty: all 1. Throws Error
// kFailedToCompleteOperation if features are not finite.
HeadFit fit_head(const LabeledFeatures& images, int num_classes, const Folds& folds,
                 const std::vector<double>& class_weights, const FitWatch& watch);

// float32 [N, C], host.
at::Tensor head_logits(const at::Tensor& rows, const HeadFit& head);

// The memory needed by fit_head() and the features themselves, in bytes.
double fit_memory(std::int64_t num_images, std::int64_t num_features, std::int64_t num_classes);

}  // namespace kiln
