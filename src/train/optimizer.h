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

  // Takes the parameters in their final place and memory format (ImageModel::prepare). Gradients
  // live in buffers of the optimizer's, of the parameters' own strides, which backward adds into.
  explicit Sgd(std::vector<at::Tensor> parameters);

  void step(double learning_rate);
  void zero_gradients();

 private:
  std::vector<at::Tensor> parameters_, gradients_, momenta_;
  bool first_step_ = true;
};

}  // namespace kiln
