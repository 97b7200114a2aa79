// The training objective and the reported loss. They are separate functions, since an objective
// that helps training is not always a value that can be compared between runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "train/recipe.h"

namespace kiln {

// The training objective: the cross-entropy, summed over the images of logits [N, C] and labels [N]
// (int64), like PyTorch's with `weight` and reduction "sum". The training step divides it by the
// number of images, not by their weights. The result is a scalar of the logits' type, with an
// autograd graph.
class TrainingLoss {
 public:
  // For logits on this device.
  explicit TrainingLoss(const LossPlan& plan, const at::Device& device = at::kCPU);

  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const;
  // For images with two labels each (epoch.h); `shares` [N] are the shares of the first label.
  // Since the loss is linear in the label, this equals the loss of a single mixed label.
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& other_labels, const at::Tensor& shares) const;

 private:
  at::Tensor weights_;  // [C], float64; undefined: all 1
  double smoothing_;
};

// Cross-entropy summed over the images, without an autograd graph. Used for logs, reports and the
// choice of the best epoch.
at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace kiln
