// SGD with momentum and a layer-wise adaptive learning rate. You, Gitman and Ginsburg, "Large Batch
// Training of Convolutional Networks", arXiv:1708.03888.
//
//   trust = 0.001 * |weight| / (|gradient| + decay * |weight|), 1 where either norm is 0
//   m = momentum * m + trust * (gradient + decay * weight);  weight -= rate * m
//
// The trust of parameters of one number a channel is 1, since their norm says little. The norms
// stay on the device, so the host does not wait for them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "train/optimizer/optimizer.h"

namespace kiln {
namespace {

constexpr double kTrust = 0.001, kEpsilon = 1e-8;

// The L2 norms of the tensors, [number of tensors].
at::Tensor norms_of(const std::vector<at::Tensor>& tensors) {
  return at::stack(at::_foreach_norm(tensors, 2));
}

// The adapted gradients, which are added to the momenta.
std::vector<at::Tensor> adapted(const StateGroup& group) {
  const at::Tensor weights = norms_of(group.parameters), gradients = norms_of(group.gradients);
  const at::Tensor quotient =
      kTrust * weights / (gradients + group.weight_decay * weights + kEpsilon);
  const at::Tensor trust =
      at::where((weights > 0).logical_and(gradients > 0), quotient, at::ones_like(quotient));
  std::vector<at::Tensor> directions =
      at::_foreach_add(group.gradients, group.parameters, group.weight_decay);
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const bool is_matrix = directions[i].dim() > 1 && directions[i].numel() > directions[i].size(0);
    if (is_matrix) directions[i].mul_(trust[static_cast<std::int64_t>(i)]);
  }
  return directions;
}

class Lars : public Optimizer {
 public:
  Lars(double momentum, std::vector<ParameterGroup> groups)
      : momentum_(momentum), groups_(with_state(std::move(groups), 1)) {}

  void step(double learning_rate, const std::optional<at::Tensor>& skip) override {
    const c10::AutoGradMode no_grad(false);
    for (StateGroup& group : groups_) {
      std::vector<at::Tensor> directions = adapted(group);
      at::_fused_sgd_(group.parameters, directions,
                      momentum_ > 0 ? at::TensorList(group.states[0]) : at::TensorList(),
                      /*weight_decay=*/0.0, momentum_, learning_rate * group.rate,
                      /*dampening=*/0.0, /*nesterov=*/false,
                      /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, skip);
    }
  }

  std::vector<NamedTensor> state() const override { return named_state(groups_, {"momentum"}); }

 private:
  double momentum_;
  std::vector<StateGroup> groups_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerPlan& plan,
                                     std::vector<ParameterGroup> groups) {
  return std::make_unique<Lars>(plan.momentum, std::move(groups));
}

}  // namespace kiln
