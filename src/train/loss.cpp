#include "train/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <c10/core/GradMode.h>

#include <array>
#include <string_view>

#include "base/error.h"

namespace kiln {
namespace {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
}

struct LossRow {
  std::string_view name;
  TrainingLoss loss;
};

constexpr std::array kLosses = {
    LossRow{"cross_entropy", cross_entropy},
};

}  // namespace

TrainingLoss find_training_loss(const LossPlan& plan) {
  for (const LossRow& row : kLosses)
    if (row.name == plan.name) return row.loss;
  throw InternalError("no loss is called " + plan.name);
}

at::Tensor reported_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const c10::AutoGradMode no_grad(false);
  return cross_entropy(logits.detach(), labels);
}

}  // namespace kiln
