// The fit is the minimum: its gradient, by autograd, is 0, and a long descent goes nowhere else.
#include "train/features/head_fit.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logspace.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

constexpr std::int64_t kNumClasses = 3;

struct Problem {
  at::Tensor features, labels;
};

// Of classes that overlap; the features have different scales, and one is constant.
Problem problem(std::int64_t num_images, std::int64_t num_features) {
  at::manual_seed(4);
  const at::Tensor labels = at::arange(num_images, at::kLong) % kNumClasses;
  const at::Tensor centers = at::randn({kNumClasses, num_features}) * 0.5;
  at::Tensor features = centers.index_select(0, labels) + at::randn({num_images, num_features});
  features = features * at::linspace(0.1, 20, num_features) + 3;
  features.select(1, 0).fill_(5);
  return {features, labels};
}

WeightedImages even(const FeatureSpace& space, const at::Tensor& labels) {
  const std::int64_t count = labels.size(0);
  return {space.coordinates(), labels,
          at::full({count}, 1.0 / static_cast<double>(count), at::kDouble)};
}

at::Tensor zeros(const FeatureSpace& space) {
  return at::zeros({space.coordinates().size(1) + 1, kNumClasses}, at::kDouble);
}

// By autograd.
at::Tensor loss_of(const WeightedImages& images, const at::Tensor& weights, double penalty) {
  const std::int64_t last = weights.size(0) - 1;
  const at::Tensor w = weights.narrow(0, 0, last), b = weights.select(0, last);
  const at::Tensor logits = images.coordinates.mm(w) + b;
  const at::Tensor losses =
      at::nll_loss(logits.log_softmax(1), images.labels, {}, at::Reduction::None);
  return (losses * images.weights).sum() + penalty / 2 * w.square().sum() +
         kBiasPenalty / 2 * b.square().sum();
}

at::Tensor gradient_at(const WeightedImages& images, const at::Tensor& weights, double penalty) {
  const at::Tensor place = weights.detach().clone().requires_grad_();
  loss_of(images, place, penalty).backward();
  return place.grad();
}

TEST(Lbfgs, FindsTheMinimumOfAnIllConditionedParabola) {
  const at::Tensor scales = at::logspace(-1, 2, 30, 10, at::kDouble);
  const at::Tensor target = at::linspace(-1, 1, 30, at::kDouble);
  const Objective parabola = [&](const at::Tensor& at) {
    const at::Tensor away = at - target;
    return ValueAndGradient{0.5 * (scales * away.square()).sum().item<double>(), scales * away};
  };
  const at::Tensor start = at::zeros({30}, at::kDouble);
  const at::Tensor found = minimize(parabola, start, 1e-6);
  EXPECT_LT((found - target).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(start.abs().max().item<double>(), 0);
}

TEST(SoftmaxRegression, IsTheMinimum) {
  for (const auto& [num_images, num_features] : {std::pair(200, 12), std::pair(30, 80)})
    for (const double penalty : {1.0, 1e-3}) {
      const Problem given = problem(num_images, num_features);
      const FeatureSpace space(given.features);
      const WeightedImages images = even(space, given.labels);
      const at::Tensor weights = fit_softmax(images, zeros(space), {penalty, 1e-6});
      EXPECT_LT(gradient_at(images, weights, penalty).abs().max().item<double>(), 1.1e-6);
    }
}

TEST(SoftmaxRegression, ALongDescentEndsAtTheSamePlace) {
  const Problem given = problem(60, 6);
  const FeatureSpace space(given.features);
  const WeightedImages images = even(space, given.labels);
  const at::Tensor weights = fit_softmax(images, zeros(space), {0.1, 1e-8});
  at::Tensor slow = zeros(space);
  slow.select(0, slow.size(0) - 1).fill_(0);
  for (int step = 0; step < 3000; ++step) slow = slow - 0.5 * gradient_at(images, slow, 0.1);
  EXPECT_LT((weights - slow).abs().max().item<double>(), 1e-4);
}

TEST(SoftmaxRegression, ImagesWithoutWeightDoNotCount) {
  const Problem given = problem(90, 10);
  const FeatureSpace space(given.features);
  WeightedImages images = even(space, given.labels);
  images.weights = at::zeros({90}, at::kDouble);
  images.weights.narrow(0, 0, 60).fill_(1.0 / 60);
  const WeightedImages fewer{space.coordinates().narrow(0, 0, 60), given.labels.narrow(0, 0, 60),
                             images.weights.narrow(0, 0, 60)};
  const at::Tensor one = fit_softmax(images, zeros(space), {0.01, 1e-8});
  const at::Tensor other = fit_softmax(fewer, zeros(space), {0.01, 1e-8});
  EXPECT_LT((one - other).abs().max().item<double>(), 1e-5);
}

TEST(FeatureSpace, LayersOverFeaturesSayTheSame) {
  for (const auto& [num_images, num_features] : {std::pair(200, 12), std::pair(30, 80)}) {
    const Problem given = problem(num_images, num_features);
    const FeatureSpace space(given.features);
    EXPECT_LE(space.coordinates().size(1), std::min(num_images, num_features));
    const at::Tensor weights =
        at::randn({space.coordinates().size(1) + 1, kNumClasses}, at::kDouble);
    const HeadFit layer = space.layer_of(weights);
    const at::Tensor logits = at::linear(given.features, layer.weight, layer.bias);
    const at::Tensor expected = logits_of(space.coordinates(), weights);
    const double scale = expected.abs().max().item<double>();
    EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-4 * scale);
  }
}

}  // namespace
}  // namespace kiln
