// The training objective and the reported loss. They are separate functions, since an objective
// that helps training is not always a value that can be compared between runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>

#include "train/recipe.h"

namespace kiln {

// The training objective, summed over the images of logits [N, C] and labels [N] (int64). The
// result is a scalar of the logits' type, with an autograd graph.
class TrainingLoss {
 public:
  // The sum over the images of weights[label] * loss, like PyTorch's cross_entropy with `weight`
  // and reduction "sum". The training step divides it by the number of images, not by their
  // weights.
  //
  // `smoothing`: the share of each label that is spread evenly over all classes. Szegedy et al.,
  // "Rethinking the Inception Architecture for Computer Vision", arXiv:1512.00567.
  using Sum = at::Tensor (*)(const at::Tensor& logits, const at::Tensor& labels,
                             const at::Tensor& weights, double smoothing);
  // The loss of each image, [N].
  using Each = Sum;

  // `weights` [C]: class weights, float64, on the device of the logits; undefined: all 1.
  TrainingLoss(Sum sum, Each each, at::Tensor weights, double smoothing)
      : sum_(sum), each_(each), weights_(std::move(weights)), smoothing_(smoothing) {}

  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const {
    return sum_(logits, labels, weights_, smoothing_);
  }
  // For images with two labels each (mixing.h); `shares` [N] are the shares of the first label.
  // Since the loss is linear in the label, this equals the loss of a single mixed label.
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& other_labels, const at::Tensor& shares) const;

 private:
  Sum sum_;
  Each each_;
  at::Tensor weights_;
  double smoothing_;
};

// The loss from the table in loss.cpp, for logits on this device. Throws InternalError for a name
// that no row has.
TrainingLoss find_training_loss(const LossPlan& plan, const at::Device& device = at::kCPU);

// Cross-entropy summed over the images, without an autograd graph. Used for logs, reports and the
// choice of the best epoch.
at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace kiln
