// SGD with Nesterov momentum and weight decay, as one fused operator over all tensors of a group.
//
//   d = gradient + decay * weight;  m = momentum * m + d;  weight -= rate * (d + momentum * m)
//
// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
#include <ATen/ops/_fused_sgd.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "train/optimizer/optimizer.h"

namespace kiln {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(double momentum, std::vector<ParameterGroup> groups)
      : momentum_(momentum), groups_(with_state(std::move(groups), 1)) {}

  void step(double learning_rate, const std::optional<at::Tensor>& skip) override {
    const c10::AutoGradMode no_grad(false);
    for (const ParameterGroup& group : groups_)
      at::_fused_sgd_(group.tensors, group.gradients,
                      momentum_ > 0 ? at::TensorList(group.states[0]) : at::TensorList(),
                      group.weight_decay, momentum_, learning_rate * group.rate, /*dampening=*/0.0,
                      /*nesterov=*/true, /*maximize=*/false, /*is_first_step=*/false,
                      /*grad_scale=*/{}, skip);
  }

  std::vector<NamedTensor> state() const override { return named_state(groups_, {"momentum"}); }

 private:
  double momentum_;  // 0: the operator requires an empty list of momenta
  std::vector<ParameterGroup> groups_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerPlan& plan, std::vector<ParameterGroup> groups) {
  return std::make_unique<Sgd>(plan.momentum, std::move(groups));
}

}  // namespace kiln
