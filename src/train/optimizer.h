// SGD with Nesterov momentum and weight decay on every parameter, as one fused operator over all
// tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace kiln {

class Sgd {
 public:
  static constexpr double kMomentum = 0.9;
  static constexpr double kWeightDecay = 1e-4;

  // `gradients` in the order of `parameters` and of the same strides (GradientBuckets).
  Sgd(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients);

  void step(double learning_rate);

 private:
  std::vector<at::Tensor> parameters_, gradients_, momenta_;
  bool first_step_ = true;
};

}  // namespace kiln
