#include "train/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::int64_t kNoLabel = -100;  // PyTorch's ignore_index; no image has this label

at::Tensor reduced_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                 const at::Tensor& weights, double smoothing,
                                 at::Reduction::Reduction reduction) {
  std::optional<at::Tensor> by_class;
  if (weights.defined()) by_class = weights.to(logits.scalar_type());
  return at::cross_entropy_loss(logits, labels, by_class, reduction, kNoLabel, smoothing);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& weights, double smoothing) {
  return reduced_cross_entropy(logits, labels, weights, smoothing, at::Reduction::Sum);
}

at::Tensor cross_entropies(const at::Tensor& logits, const at::Tensor& labels,
                           const at::Tensor& weights, double smoothing) {
  return reduced_cross_entropy(logits, labels, weights, smoothing, at::Reduction::None);
}

at::Tensor weights_on(const at::Device& device, const std::vector<double>& weights) {
  if (weights.empty()) return {};
  const at::Tensor host =
      at::empty({static_cast<std::int64_t>(weights.size())}, at::TensorOptions(at::kDouble));
  std::copy(weights.begin(), weights.end(), host.data_ptr<double>());
  return host.to(device);
}

struct LossRow {
  std::string_view name;
  TrainingLoss::Sum sum;
  TrainingLoss::Each each;
};

constexpr std::array kLosses = {
    LossRow{"cross_entropy", cross_entropy, cross_entropies},
};

}  // namespace

TrainingLoss find_training_loss(const LossPlan& plan, const at::Device& device) {
  for (const LossRow& row : kLosses)
    if (row.name == plan.name)
      return {row.sum, row.each, weights_on(device, plan.class_weights), plan.label_smoothing};
  throw InternalError("no loss is called " + plan.name);
}

at::Tensor TrainingLoss::operator()(const at::Tensor& logits, const at::Tensor& labels,
                                    const at::Tensor& other_labels,
                                    const at::Tensor& shares) const {
  const at::Tensor first = each_(logits, labels, weights_, smoothing_);
  const at::Tensor second = each_(logits, other_labels, weights_, smoothing_);
  return (second + shares.to(first.scalar_type()) * (first - second)).sum();
}

at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const c10::AutoGradMode no_grad(false);
  return cross_entropy(logits.detach(), labels, {}, /*smoothing=*/0);
}

}  // namespace kiln
