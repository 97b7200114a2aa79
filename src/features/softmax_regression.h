// A linear layer whose softmax fits labeled features best: softmax regression with an L2 penalty,
// in float64 on the host. The loss is convex, so there is one answer, whatever the start.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace kiln {

// The coordinates in which layers are fitted: each feature with mean 0 and variance 1 and, where
// images are fewer than features, along as many directions as there are images, which loses
// nothing. Made without labels.
class FeatureSpace {
 public:
  // Of float [N, D] on the host.
  explicit FeatureSpace(const at::Tensor& features);

  // Of the same features: float64 [N, R].
  const at::Tensor& coordinates() const { return coordinates_; }

  struct Layer {
    at::Tensor weight, bias;  // float [C, D], [C]
  };
  // The layer over the features themselves that equals `weights`, float64 [R + 1, C], the last row
  // being the bias, over the coordinates.
  Layer layer_of(const at::Tensor& weights) const;

 private:
  at::Tensor mean_, scale_;  // [D]
  at::Tensor directions_;    // [D, R]; undefined: those of the features
  at::Tensor coordinates_;
};

// The images of a fit, and what they weigh.
struct WeightedImages {
  at::Tensor coordinates;  // float64 [N, R]
  at::Tensor labels;       // int64 [N]
  at::Tensor weights;      // float64 [N], with sum 1; 0: the image is not learned from
};

// Besides that of --weight-decay's kind, which is of the weights alone, the bias has one that
// keeps it finite for classes without images.
inline constexpr double kBiasPenalty = 1e-4;

struct RegressionPlan {
  double penalty = 0.01;    // of half the sum of the squared weights, beside the mean loss
  double tolerance = 1e-5;  // of the gradient
  std::function<bool()> is_stopped = {};
};

// float64 [R + 1, C] from `start`, of that shape: zeros, or what was fitted to something similar.
at::Tensor fit_softmax(const WeightedImages& images, const at::Tensor& start,
                       const RegressionPlan& plan);

// float64 [N, C] of float64 [N, R] and of weights [R + 1, C].
at::Tensor logits_of(const at::Tensor& coordinates, const at::Tensor& weights);

}  // namespace kiln
