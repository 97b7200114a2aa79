#include "train/optimizer/optimizer.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "train/optimizer/catalogue.h"

namespace kiln {

std::unique_ptr<Optimizer> make_adamw(const OptimizerPlan& plan,
                                      std::vector<ParameterGroup> groups);
std::unique_ptr<Optimizer> make_lars(const OptimizerPlan& plan, std::vector<ParameterGroup> groups);
std::unique_ptr<Optimizer> make_sgd(const OptimizerPlan& plan, std::vector<ParameterGroup> groups);

namespace {

struct OptimizerMaker {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerPlan&, std::vector<ParameterGroup>);
};

constexpr std::array kMakers = {
    OptimizerMaker{"sgd", make_sgd},
    OptimizerMaker{"adamw", make_adamw},
    OptimizerMaker{"lars", make_lars},
};
static_assert(std::ranges::equal(kMakers, kKnownOptimizers, {}, &OptimizerMaker::name,
                                 &KnownOptimizer::name),
              "one maker for each row of the catalogue, in its order");

}  // namespace

std::vector<ParameterGroup> groups_of(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan) {
  const std::vector<NamedTensor> parameters = model.trained_parameters(), head = model.head();
  std::vector<ParameterGroup> all;
  for (const double rate : {1.0, plan.head_rate})
    for (const double decay : {plan.weight_decay, 0.0}) all.push_back({{}, {}, decay, rate});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_head =
        plan.head_rate != 1 && std::any_of(head.begin(), head.end(), [&](const NamedTensor& item) {
          return item.name == parameters[i].name;
        });
    const bool decays = plan.decays_norm_and_bias || parameters[i].tensor.dim() > 1;
    ParameterGroup& group = all[(is_head ? 2U : 0U) + (decays ? 0U : 1U)];
    group.parameters.push_back(parameters[i]);
    group.gradients.push_back(gradients[i]);
  }
  std::erase_if(all, [](const ParameterGroup& group) { return group.parameters.empty(); });
  return all;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups) {
  for (const OptimizerMaker& maker : kMakers)
    if (maker.name == plan.name) return maker.make(plan, std::move(groups));
  throw InternalError("no optimizer is called " + plan.name);
}

std::vector<MomentumGroup> with_momenta(std::vector<ParameterGroup> groups) {
  const c10::AutoGradMode no_grad(false);
  std::vector<MomentumGroup> all;
  for (ParameterGroup& given : groups) {
    MomentumGroup group{{}, {}, std::move(given.gradients), {}, given.weight_decay, given.rate};
    for (const NamedTensor& parameter : given.parameters) {
      group.names.push_back(parameter.name);
      group.parameters.push_back(parameter.tensor);
      group.momenta.push_back(at::zeros_like(parameter.tensor));
    }
    all.push_back(std::move(group));
  }
  return all;
}

std::vector<NamedTensor> named_momenta(const std::vector<MomentumGroup>& groups) {
  std::vector<NamedTensor> state;
  for (const MomentumGroup& group : groups)
    for (std::size_t i = 0; i < group.names.size(); ++i)
      state.push_back({"momentum." + group.names[i], group.momenta[i]});
  return state;
}

}  // namespace kiln
