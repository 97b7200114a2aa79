#include "train/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

namespace kiln {

TrainingLoss::TrainingLoss(const LossPlan& plan, const at::Device& device, const Task& task)
    : task_(task), smoothing_(plan.label_smoothing) {
  if (!plan.class_weights.empty())
    weights_ = at::tensor(plan.class_weights, at::kDouble).to(device);
}

at::Tensor TrainingLoss::operator()(const at::Tensor& logits, const LossLabels& given,
                                    const LossLabels& others, const at::Tensor& shares) const {
  if (!others.labels.defined() && given.weights.defined()) return of_each(logits, given).sum();
  if (!others.labels.defined())
    return task_.loss(logits, given.labels, weights_, smoothing_, at::Reduction::Sum);
  const at::Tensor first = of_each(logits, given), second = of_each(logits, others);
  return (second + shares.to(first.scalar_type()) * (first - second)).sum();
}

at::Tensor TrainingLoss::of_each(const at::Tensor& logits, const LossLabels& given) const {
  const at::Tensor losses =
      task_.loss(logits, given.labels, weights_, smoothing_, at::Reduction::None);
  return given.weights.defined() ? losses * given.weights.to(losses.scalar_type()) : losses;
}

at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels, const Task& task) {
  const c10::AutoGradMode no_grad(false);
  return task.loss(logits.detach(), labels, {}, /*smoothing=*/0, at::Reduction::Sum);
}

}  // namespace kiln
