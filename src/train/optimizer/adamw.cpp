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
#include <c10/core/GradMode.h>

#include <utility>

#include "train/optimizer/optimizer.h"

namespace kiln {
namespace {

constexpr double kSquareDecay = 0.999, kEpsilon = 1e-8;

class AdamW : public Optimizer {
 public:
  AdamW(double momentum, std::vector<ParameterGroup> groups)
      : momentum_(momentum), groups_(with_state(std::move(groups), 2)) {
    if (groups_.empty()) return;
    step_ = at::zeros({1}, groups_.front().parameters.front().tensor.options().dtype(at::kFloat));
  }

  void step(double learning_rate, const std::optional<at::Tensor>& skip) override {
    const c10::AutoGradMode no_grad(false);
    if (groups_.empty()) return;
    step_.add_(1);
    for (const ParameterGroup& group : groups_) {
      const std::vector<at::Tensor> steps(group.parameters.size(), step_);  // of all parameters
      at::_fused_adamw_(group.tensors, group.gradients, group.states[0], group.states[1],
                        /*max_exp_avg_sqs=*/{}, steps, learning_rate * group.rate, momentum_,
                        kSquareDecay, group.weight_decay, kEpsilon, /*amsgrad=*/false,
                        /*maximize=*/false, /*grad_scale=*/{}, skip);
    }
    if (skip) step_.sub_(*skip);  // a skipped step does not count
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> state = named_state(groups_, {"mean", "square"});
    if (step_.defined()) state.push_back({"steps", step_});
    return state;
  }

 private:
  double momentum_;
  at::Tensor step_;  // float32 [1]; kept on the device so that a skipped step needs no sync
  std::vector<ParameterGroup> groups_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerPlan& plan,
                                      std::vector<ParameterGroup> groups) {
  return std::make_unique<AdamW>(plan.momentum, std::move(groups));
}

}  // namespace kiln
