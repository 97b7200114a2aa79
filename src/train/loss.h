// The training objective and the reported loss. They are separate functions, since an objective
// that helps training is not always a value that can be compared between runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>

#include "train/recipe.h"
#include "train/task.h"

namespace kiln {

// Labels of images, with their weights.
struct LossLabels {
  LossLabels(at::Tensor of_images = {}, at::Tensor weights_of_images = {})
      : labels(std::move(of_images)), weights(std::move(weights_of_images)) {}
  at::Tensor labels;   // int64 [N]
  at::Tensor weights;  // float32 [N]; undefined: all 1
};

// The training objective: the task's loss, summed over the images of logits [N, C] and labels [N]
// (int64); of one label the cross-entropy, like PyTorch's with `weight` and reduction "sum". The
// training step divides it by the number of images, not by their weights. The result is a scalar of
// the logits' type, with an autograd graph.
class TrainingLoss {
 public:
  // For logits on this device. The task must outlive the object.
  explicit TrainingLoss(const LossPlan& plan, const at::Device& device = at::kCPU,
                        const Task& task = single_label());

  // For images with two labels each (epoch.h), `shares` [N] are the shares of the first label.
  // Since the loss is linear in the label, this equals the loss of a single mixed label.
  at::Tensor operator()(const at::Tensor& logits, const LossLabels& labels,
                        const LossLabels& others = {}, const at::Tensor& shares = {}) const;

 private:
  at::Tensor of_each(const at::Tensor& logits, const LossLabels& labels) const;

  const Task& task_;
  at::Tensor weights_;  // [C], float64; undefined: all 1
  double smoothing_;
};

// The task's loss summed over the images, without weights, smoothing and an autograd graph. Used
// for logs, reports and the choice of the best epoch.
at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels,
                         const Task& task = single_label());

}  // namespace kiln
