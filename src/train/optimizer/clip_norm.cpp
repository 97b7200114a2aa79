#include "train/optimizer/clip_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace kiln {

void clip_norm(const std::vector<at::Tensor>& gradients, double most) {
  constexpr double kEpsilon = 1e-6;
  const c10::AutoGradMode no_grad(false);
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)));
  const at::Tensor factor = (most / (norm + kEpsilon)).clamp_max(1);
  at::_foreach_mul_(gradients, factor);
}

}  // namespace kiln
