// The training objective, and the reported loss. These are two functions: an objective that helps
// training need not be the number to compare.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>

#include "train/recipe.h"

namespace kiln {

// The objective summed over the images of logits [N, C] and labels [N] (int64): a scalar with a
// graph, of the logits' type.
class TrainingLoss {
 public:
  // Weighted, a sum over the images of w(label) * loss, as PyTorch's cross_entropy with `weight`
  // and the reduction "sum": the step divides it by its images, not by their weights.
  //
  // With `smoothing` each label gives this share to all classes alike. Szegedy et al., "Rethinking
  // the Inception Architecture for Computer Vision", arXiv:1512.00567.
  using Sum = at::Tensor (*)(const at::Tensor& logits, const at::Tensor& labels,
                             const at::Tensor& weights, double smoothing);
  // The loss of each image, [N].
  using Each = Sum;

  // `weights` [C] of the classes, float64, on the device of the logits; undefined: all 1.
  TrainingLoss(Sum sum, Each each, at::Tensor weights, double smoothing)
      : sum_(sum), each_(each), weights_(std::move(weights)), smoothing_(smoothing) {}

  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const {
    return sum_(logits, labels, weights_, smoothing_);
  }
  // Of images with two labels each, `shares` [N] of the first (mixing.h): as the loss is linear in
  // the label, what one label with both in it would give.
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& other_labels, const at::Tensor& shares) const;

 private:
  Sum sum_;
  Each each_;
  at::Tensor weights_;
  double smoothing_;
};

// A row of the table in loss.cpp, for logits on this device. Throws InternalError for a name that
// no row has.
TrainingLoss find_training_loss(const LossPlan& plan, const at::Device& device = at::kCPU);

// The sum of the images' cross-entropies, without a graph; used by logs, reports and the choice of
// the best epoch.
at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace kiln
