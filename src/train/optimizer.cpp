#include "train/optimizer.h"

#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

namespace kiln {

Sgd::Sgd(std::vector<at::Tensor> parameters, std::vector<at::Tensor> gradients)
    : parameters_(std::move(parameters)), gradients_(std::move(gradients)) {
  const c10::AutoGradMode no_grad(false);
  for (const at::Tensor& parameter : parameters_) momenta_.push_back(at::zeros_like(parameter));
}

void Sgd::step(double learning_rate) {
  const c10::AutoGradMode no_grad(false);
  at::_fused_sgd_(parameters_, gradients_, momenta_, kWeightDecay, kMomentum, learning_rate,
                  /*dampening=*/0.0, /*nesterov=*/true, /*maximize=*/false, first_step_);
  first_step_ = false;
}

}  // namespace kiln
