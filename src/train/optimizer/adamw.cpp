// Adam with decoupled weight decay, as one fused operator over all tensors of a group.
//
//   m = b1 * m + (1 - b1) * gradient;  v = b2 * v + (1 - b2) * gradient^2;  t = t + 1
//   weight -= rate * decay * weight
//   weight -= rate * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + 1e-8)
//
// b1 is the plan's momentum, b2 0.999. Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", arXiv:1711.05101.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "train/optimizer/optimizer.h"

namespace kiln {
namespace {

constexpr double kSquareDecay = 0.999, kEpsilon = 1e-8;

struct Group {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters, gradients, means, squares, steps;
  double weight_decay, rate;
};

class AdamW : public Optimizer {
 public:
  AdamW(double momentum, std::vector<ParameterGroup> groups) : momentum_(momentum) {
    const c10::AutoGradMode no_grad(false);
    for (ParameterGroup& given : groups) {
      if (!step_.defined())
        step_ = at::zeros({1}, given.parameters.front().tensor.options().dtype(at::kFloat));
      Group group{{}, {}, std::move(given.gradients), {}, {}, {}, given.weight_decay, given.rate};
      for (const NamedTensor& parameter : given.parameters) {
        group.names.push_back(parameter.name);
        group.parameters.push_back(parameter.tensor);
        group.means.push_back(at::zeros_like(parameter.tensor));
        group.squares.push_back(at::zeros_like(parameter.tensor));
        group.steps.push_back(step_);  // one counter shared by all parameters
      }
      groups_.push_back(std::move(group));
    }
  }

  void step(double learning_rate, const std::optional<at::Tensor>& skip) override {
    const c10::AutoGradMode no_grad(false);
    if (groups_.empty()) return;
    step_.add_(1);
    for (Group& group : groups_)
      at::_fused_adamw_(group.parameters, group.gradients, group.means, group.squares,
                        /*max_exp_avg_sqs=*/{}, group.steps, learning_rate * group.rate, momentum_,
                        kSquareDecay, group.weight_decay, kEpsilon, /*amsgrad=*/false,
                        /*maximize=*/false, /*grad_scale=*/{}, skip);
    if (skip) step_.sub_(*skip);  // a skipped step does not count
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> state;
    for (const Group& group : groups_)
      for (std::size_t i = 0; i < group.names.size(); ++i) {
        state.push_back({"mean." + group.names[i], group.means[i]});
        state.push_back({"square." + group.names[i], group.squares[i]});
      }
    if (step_.defined()) state.push_back({"steps", step_});
    return state;
  }

 private:
  double momentum_;
  at::Tensor step_;  // float32 [1]; kept on the device so that a skipped step needs no sync
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerPlan& plan,
                                      std::vector<ParameterGroup> groups) {
  return std::make_unique<AdamW>(plan.momentum, std::move(groups));
}

}  // namespace kiln
