#include "train/features/softmax_regression.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace kiln {
namespace {

// Up to this many images, finding the directions takes less time than they save.
constexpr std::int64_t kMaxDirections = 1000;
// A relative variance below this is rounding error.
constexpr double kNoVariance = 1e-12;

at::Tensor weights_part(const at::Tensor& weights) {
  return weights.narrow(0, 0, weights.size(0) - 1);
}

at::Tensor bias_part(const at::Tensor& weights) {
  return weights.select(0, weights.size(0) - 1);
}

// Multiplications between two questions whether to stop: well below a second.
constexpr std::int64_t kMaxAtOnce = 4'000'000'000;

// Adds to `sum`, which may be undefined.
void add(at::Tensor& sum, const at::Tensor& part) {
  sum = sum.defined() ? sum + part : part;
}

// The weighted mean of the cross-entropy plus the penalties, and its gradient.
ValueAndGradient penalized_loss(const WeightedImages& images, const at::Tensor& weights,
                                const RegressionPlan& plan) {
  const at::Tensor w = weights_part(weights), b = bias_part(weights);
  const std::int64_t num_images = images.labels.size(0);
  const std::int64_t most = std::max<std::int64_t>(64, kMaxAtOnce / weights.numel());
  double loss = 0;
  at::Tensor of_weights, of_bias;
  for (std::int64_t begin = 0; begin < num_images; begin += most) {
    const auto part = [&, count = std::min(most, num_images - begin)](const at::Tensor& all) {
      return all.narrow(0, begin, count);
    };
    const at::Tensor labels = part(images.labels).unsqueeze(1);
    const at::Tensor logs = logits_of(part(images.coordinates), weights).log_softmax(1);
    loss -= logs.gather(1, labels).squeeze(1).dot(part(images.weights)).item<double>();
    at::Tensor excess = logs.exp();  // predicted probabilities minus the one-hot labels
    excess.scatter_add_(1, labels, at::full({excess.size(0), 1}, -1.0, at::kDouble));
    excess.mul_(part(images.weights).unsqueeze(1));
    add(of_weights, part(images.coordinates).t().mm(excess));
    add(of_bias, excess.sum(0));
    if (plan.is_stopped && plan.is_stopped()) break;
  }
  at::Tensor gradient = at::empty_like(weights);
  weights_part(gradient).copy_(of_weights + plan.penalty * w);
  bias_part(gradient).copy_(of_bias + kBiasPenalty * b);
  const double penalties = 0.5 * plan.penalty * w.square().sum().item<double>() +
                           0.5 * kBiasPenalty * b.square().sum().item<double>();
  return {loss + penalties, gradient};
}

}  // namespace

FeatureSpace::FeatureSpace(const at::Tensor& features) {
  const at::NoGradGuard no_grad;
  coordinates_ = features.to(at::kDouble);
  mean_ = coordinates_.mean(0);
  const at::Tensor variance = coordinates_.var(0, /*unbiased=*/false);
  // A feature that is constant over all images carries no information: it becomes 0.
  const at::Tensor varies = variance > kNoVariance * mean_.square();
  scale_ = at::where(varies, variance.clamp_min(1e-300).rsqrt(), at::zeros_like(variance));
  coordinates_ = (coordinates_ - mean_).mul_(scale_);
  const std::int64_t num_images = features.size(0);
  if (num_images >= features.size(1) || num_images > kMaxDirections) return;
  const auto [squares, images] = at::linalg_eigh(coordinates_.mm(coordinates_.t()));
  const double largest = squares.max().item<double>();
  const at::Tensor kept = (squares > kNoVariance * largest).nonzero().squeeze(1);
  if (kept.size(0) == 0) return;
  const at::Tensor lengths = squares.index_select(0, kept).sqrt();
  const at::Tensor basis = images.index_select(1, kept);
  directions_ = coordinates_.t().mm(basis) / lengths;
  coordinates_ = basis * lengths;
}

FeatureSpace::Layer FeatureSpace::layer_of(const at::Tensor& weights) const {
  const at::NoGradGuard no_grad;
  const at::Tensor along = weights_part(weights);
  const at::Tensor w =
      (directions_.defined() ? directions_.mm(along) : along) * scale_.unsqueeze(1);  // [D, C]
  const at::Tensor bias = bias_part(weights) - mean_.unsqueeze(0).mm(w).squeeze(0);
  return {w.t().to(at::kFloat).contiguous(), bias.to(at::kFloat).contiguous()};
}

at::Tensor fit_softmax(const WeightedImages& images, const at::Tensor& start,
                       const RegressionPlan& plan) {
  const at::IntArrayRef shape = start.sizes();
  const Objective objective = [&](const at::Tensor& place) {
    ValueAndGradient found = penalized_loss(images, place.view(shape), plan);
    found.gradient = found.gradient.view({-1});
    return found;
  };
  return minimize(objective, start.reshape({-1}),
                  {.tolerance = plan.tolerance, .is_stopped = plan.is_stopped})
      .view(shape);
}

at::Tensor logits_of(const at::Tensor& coordinates, const at::Tensor& weights) {
  return at::addmm(bias_part(weights), coordinates, weights_part(weights));
}

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
