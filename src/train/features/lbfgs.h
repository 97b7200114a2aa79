// L-BFGS: minimizes a smooth convex function of many variables using its gradients. Liu and
// Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace kiln {

struct ValueAndGradient {
  double value = 0;
  at::Tensor gradient;  // same shape as the argument; not modified later
};

// Evaluates the function at a float64 [n] point.
using Objective = std::function<ValueAndGradient(const at::Tensor& at)>;

struct MinimizePlan {
  double tolerance = 1e-5;  // on the largest absolute component of the gradient
  int max_steps = 1000;
  // Asked after each evaluation. Once true, it stays so, and the result is the best point so far;
  // an evaluation during which it became true may have any value.
  std::function<bool()> is_stopped = {};
};

// Minimizes from `start`, float64 [n] on the host, which is not modified. The function must be
// bounded from below. Bit-identical results for the same number of threads.
at::Tensor minimize(const Objective& objective, const at::Tensor& start, const MinimizePlan& plan);

}  // namespace kiln
