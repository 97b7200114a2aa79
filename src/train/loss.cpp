#include "train/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& weights) {
  if (!weights.defined()) return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
  return at::cross_entropy_loss(logits, labels, weights.to(logits.scalar_type()),
                                at::Reduction::Sum);
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
};

constexpr std::array kLosses = {
    LossRow{"cross_entropy", cross_entropy},
};

}  // namespace

TrainingLoss find_training_loss(const LossPlan& plan, const at::Device& device) {
  for (const LossRow& row : kLosses)
    if (row.name == plan.name) return {row.sum, weights_on(device, plan.class_weights)};
  throw InternalError("no loss is called " + plan.name);
}

at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const c10::AutoGradMode no_grad(false);
  return cross_entropy(logits.detach(), labels, {});
}

}  // namespace kiln
