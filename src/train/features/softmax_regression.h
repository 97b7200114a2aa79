// Softmax regression with an L2 penalty: a linear layer fitted to labeled features, in float64 on
// the host. The loss is convex, so the solution does not depend on the starting point.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace kiln {

// The coordinates in which layers are fitted: features standardized to mean 0 and variance 1
// (constant ones become 0). If there are fewer images than features, and no more than 1000, they
// are also projected onto as many directions as there are images, which loses nothing. Does not use
// labels.
class FeatureSpace {
 public:
  // `features`: float [N, D] on the host.
  explicit FeatureSpace(const at::Tensor& features);

  // The coordinates of those features: float64 [N, R].
  const at::Tensor& coordinates() const { return coordinates_; }

  struct Layer {
    at::Tensor weight, bias;  // float [C, D], [C]
  };
  // Converts `weights` over the coordinates, float64 [R + 1, C] with the bias in the last row, to
  // the equivalent layer over the features themselves.
  Layer layer_of(const at::Tensor& weights) const;

 private:
  at::Tensor mean_, scale_;  // [D]
  at::Tensor directions_;    // [D, R]; undefined: not projected
  at::Tensor coordinates_;
};

// The images of a fit and their weights.
struct WeightedImages {
  at::Tensor coordinates;  // float64 [N, R]
  at::Tensor labels;       // int64 [N]
  at::Tensor weights;      // float64 [N], with sum 1; 0: the image is ignored
};

// L2 penalty on the bias. RegressionPlan::penalty, like --weight-decay, applies to the weights
// only; this one keeps the bias finite for classes without images.
inline constexpr double kBiasPenalty = 1e-4;

struct RegressionPlan {
  double penalty = 0.01;    // factor of half the sum of squared weights, added to the mean loss
  double tolerance = 1e-5;  // on the gradient
  std::function<bool()> is_stopped = {};  // asked several times a second; see MinimizePlan
};

// Returns float64 [R + 1, C]. `start` has that shape: zeros, or the result of a similar fit.
at::Tensor fit_softmax(const WeightedImages& images, const at::Tensor& start,
                       const RegressionPlan& plan);

// float64 [N, C], from coordinates float64 [N, R] and weights float64 [R + 1, C].
at::Tensor logits_of(const at::Tensor& coordinates, const at::Tensor& weights);

// L-BFGS: minimizes a smooth convex function of many variables using its gradients. Liu and
// Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.

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
