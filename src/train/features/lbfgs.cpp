#include "train/features/lbfgs.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

namespace kiln {
namespace {

constexpr std::size_t kMemory = 10;      // steps remembered
constexpr double kSufficient = 1e-4;     // Armijo: required share of the predicted decrease
constexpr double kShortestStep = 1e-12;  // below this, rounding hides any decrease

double product(const at::Tensor& a, const at::Tensor& b) {
  return a.dot(b).item<double>();
}

// A past step and the change of the gradient along it, which carry the curvature information.
struct Memory {
  at::Tensor step, change;
  double curvature = 0;  // step . change
};

// The search direction: minus the gradient times the approximate inverse Hessian, by the two-loop
// recursion.
at::Tensor direction(const at::Tensor& gradient, const std::deque<Memory>& memories) {
  at::Tensor way = gradient.neg();
  if (memories.empty()) return way.div_(std::max(1.0, gradient.norm().item<double>()));
  std::vector<double> shares;
  for (auto past = memories.rbegin(); past != memories.rend(); ++past) {
    shares.push_back(product(past->step, way) / past->curvature);
    way.sub_(past->change, shares.back());
  }
  const Memory& last = memories.back();
  way.mul_(last.curvature / product(last.change, last.change));
  for (const Memory& past : memories) {
    way.add_(past.step, shares.back() - product(past.change, way) / past.curvature);
    shares.pop_back();
  }
  return way;
}

}  // namespace

at::Tensor minimize(const Objective& objective, const at::Tensor& start, const MinimizePlan& plan) {
  const at::NoGradGuard no_grad;
  const auto is_stopped = [&] { return plan.is_stopped && plan.is_stopped(); };
  std::deque<Memory> memories;
  at::Tensor place = start;
  ValueAndGradient now = objective(place);
  for (int step = 0; step < plan.max_steps && !is_stopped(); ++step) {
    if (now.gradient.abs().max().item<double>() <= plan.tolerance) break;
    const at::Tensor way = direction(now.gradient, memories);
    const double slope = product(now.gradient, way);
    double length = 1;
    at::Tensor next = place + way;
    ValueAndGradient there = objective(next);
    // Negated rather than ">", so that the step is also halved if the value is NaN.
    while (!is_stopped() && length > kShortestStep &&
           !(there.value <= now.value + kSufficient * length * slope)) {
      length /= 2;
      next = place + way * length;
      there = objective(next);
    }
    if (length <= kShortestStep || is_stopped()) break;
    Memory memory{next - place, there.gradient - now.gradient, 0};
    memory.curvature = product(memory.step, memory.change);
    if (memory.curvature > 0) memories.push_back(std::move(memory));
    if (memories.size() > kMemory) memories.pop_front();
    place = std::move(next);
    now = std::move(there);
  }
  return place;
}

}  // namespace kiln
