// L-BFGS: the minimum of a smooth convex function of many numbers, from its gradients. Liu and
// Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace kiln {

struct ValueAndGradient {
  double value = 0;
  at::Tensor gradient;  // of the shape of the argument; not changed later
};

// float64 [n] -> its value.
using Objective = std::function<ValueAndGradient(const at::Tensor& at)>;

struct MinimizePlan {
  double tolerance = 1e-5;  // of the largest component of the gradient
  int most_steps = 1000;
  std::function<bool()> is_stopped = {};  // asked before each step; then it ends early
};

// From `start`, float64 [n] on the host, which stays as it is. The function must be bounded from
// below. Gives the same bits for the same threads.
at::Tensor minimize(const Objective& objective, const at::Tensor& start, const MinimizePlan& plan);

}  // namespace kiln
