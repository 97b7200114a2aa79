// SGD with Nesterov momentum and weight decay, as one fused operator over all tensors of a group.
//
//   d = gradient + decay * weight;  m = momentum * m + d;  weight -= rate * (d + momentum * m)
//
// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "train/optimizer/optimizer.h"

namespace kiln {
namespace {

struct Group {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters, gradients, momenta;
  double weight_decay, rate;
};

class Sgd : public Optimizer {
 public:
  Sgd(double momentum, std::vector<ParameterGroup> groups) : momentum_(momentum) {
    const c10::AutoGradMode no_grad(false);
    for (ParameterGroup& given : groups) {
      Group group{{}, {}, std::move(given.gradients), {}, given.weight_decay, given.rate};
      for (const NamedTensor& parameter : given.parameters) {
        group.names.push_back(parameter.name);
        group.parameters.push_back(parameter.tensor);
        group.momenta.push_back(at::zeros_like(parameter.tensor));
      }
      groups_.push_back(std::move(group));
    }
  }

  void step(double learning_rate, const std::optional<at::Tensor>& skip) override {
    const c10::AutoGradMode no_grad(false);
    for (Group& group : groups_)
      at::_fused_sgd_(group.parameters, group.gradients, with_momentum(group), group.weight_decay,
                      momentum_, learning_rate * group.rate, /*dampening=*/0.0, /*nesterov=*/true,
                      /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, skip);
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> state;
    for (const Group& group : groups_)
      for (std::size_t i = 0; i < group.names.size(); ++i)
        state.push_back({"momentum." + group.names[i], group.momenta[i]});
    return state;
  }

 private:
  // The operator wants none where there is no momentum.
  at::TensorList with_momentum(const Group& group) const {
    return momentum_ > 0 ? at::TensorList(group.momenta) : at::TensorList();
  }

  double momentum_;
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerPlan& plan, std::vector<ParameterGroup> groups) {
  return std::make_unique<Sgd>(plan.momentum, std::move(groups));
}

}  // namespace kiln
