#include "train/optimizer/gradient_scaling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

namespace kiln {
namespace {

// The defaults of PyTorch's GradScaler, like the initial scale.
constexpr double kGrowth = 2, kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // steps

}  // namespace

LossScaler::LossScaler(const c10::Device& device)
    : scale_(at::full({1}, LossScale{}.scale, at::TensorOptions(device).dtype(at::kFloat))),
      found_inf_(at::zeros({1}, scale_.options())),
      skipped_(at::zeros({1}, scale_.options())),
      growth_tracker_(at::zeros({1}, scale_.options().dtype(at::kInt))) {}

at::Tensor LossScaler::scaled(const at::Tensor& loss) const {
  return loss * scale_.squeeze();
}

const at::Tensor& LossScaler::unscale(const std::vector<at::Tensor>& gradients) {
  const c10::AutoGradMode no_grad(false);
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, kGrowth, kBackoff, kGrowthInterval);
  skipped_.add_(found_inf_);
  return found_inf_;
}

LossScale LossScaler::values() const {
  const at::Tensor host = at::cat({scale_, growth_tracker_, skipped_}).cpu();
  const auto* values = host.const_data_ptr<float>();
  return {values[0], static_cast<int>(values[1]), static_cast<int>(values[2])};
}

void LossScaler::set(const LossScale& values) {
  const c10::AutoGradMode no_grad(false);
  scale_.fill_(values.scale);
  growth_tracker_.fill_(values.steps_since_overflow);
  skipped_.fill_(values.skipped_steps);
}

void LossScaler::forget_skipped_steps() {
  const c10::AutoGradMode no_grad(false);
  skipped_.zero_();
}

void clip_norm(const std::vector<at::Tensor>& gradients, double most) {
  constexpr double kEpsilon = 1e-6;
  const c10::AutoGradMode no_grad(false);
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)));
  const at::Tensor factor = (most / (norm + kEpsilon)).clamp_max(1);
  at::_foreach_mul_(gradients, factor);
}

}  // namespace kiln
