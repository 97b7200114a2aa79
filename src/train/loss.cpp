#include "train/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <cstdint>
#include <optional>

namespace kiln {
namespace {

constexpr std::int64_t kNoLabel = -100;  // PyTorch's ignore_index; no image has this label

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& weights, double smoothing,
                         at::Reduction::Reduction reduction) {
  std::optional<at::Tensor> by_class;
  if (weights.defined()) by_class = weights.to(logits.scalar_type());
  return at::cross_entropy_loss(logits, labels, by_class, reduction, kNoLabel, smoothing);
}

}  // namespace

TrainingLoss::TrainingLoss(const LossPlan& plan, const at::Device& device)
    : smoothing_(plan.label_smoothing) {
  if (!plan.class_weights.empty())
    weights_ = at::tensor(plan.class_weights, at::kDouble).to(device);
}

at::Tensor TrainingLoss::operator()(const at::Tensor& logits, const Labels& given) const {
  if (given.weights.defined()) return of_each(logits, given).sum();
  return cross_entropy(logits, given.labels, weights_, smoothing_, at::Reduction::Sum);
}

at::Tensor TrainingLoss::operator()(const at::Tensor& logits, const Labels& given,
                                    const Labels& others, const at::Tensor& shares) const {
  const at::Tensor first = of_each(logits, given), second = of_each(logits, others);
  return (second + shares.to(first.scalar_type()) * (first - second)).sum();
}

at::Tensor TrainingLoss::of_each(const at::Tensor& logits, const Labels& given) const {
  const at::Tensor losses =
      cross_entropy(logits, given.labels, weights_, smoothing_, at::Reduction::None);
  return given.weights.defined() ? losses * given.weights.to(losses.scalar_type()) : losses;
}

at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const c10::AutoGradMode no_grad(false);
  return cross_entropy(logits.detach(), labels, {}, /*smoothing=*/0, at::Reduction::Sum);
}

}  // namespace kiln
