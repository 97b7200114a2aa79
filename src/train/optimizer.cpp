#include "train/optimizer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace kiln {

std::unique_ptr<Optimizer> make_sgd(const OptimizerPlan& plan, std::vector<ParameterGroup> groups);

namespace {

struct OptimizerMaker {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerPlan&, std::vector<ParameterGroup>);
};

constexpr std::array kOptimizers = {
    OptimizerMaker{"sgd", make_sgd},
};

}  // namespace

std::vector<ParameterGroup> groups_of(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan) {
  const std::vector<NamedTensor> parameters = model.trained_parameters();
  if (plan.head_rate == 1) return {{parameters, gradients, plan.weight_decay}};
  const std::vector<NamedTensor> head = model.head();
  ParameterGroup rest{{}, {}, plan.weight_decay}, last{{}, {}, plan.weight_decay, plan.head_rate};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_head = std::any_of(head.begin(), head.end(), [&](const NamedTensor& item) {
      return item.name == parameters[i].name;
    });
    ParameterGroup& group = is_head ? last : rest;
    group.parameters.push_back(parameters[i]);
    group.gradients.push_back(gradients[i]);
  }
  std::vector<ParameterGroup> groups;
  if (!rest.parameters.empty()) groups.push_back(std::move(rest));  // empty: a frozen backbone
  groups.push_back(std::move(last));
  return groups;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups) {
  for (const OptimizerMaker& maker : kOptimizers)
    if (maker.name == plan.name) return maker.make(plan, std::move(groups));
  throw InternalError("no optimizer is called " + plan.name);
}

}  // namespace kiln
