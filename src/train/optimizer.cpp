#include "train/optimizer.h"

#include <array>
#include <string_view>

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

std::vector<ParameterGroup> one_group(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan) {
  return {{model.named_parameters(), gradients, plan.weight_decay}};
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups) {
  for (const OptimizerMaker& maker : kOptimizers)
    if (maker.name == plan.name) return maker.make(plan, std::move(groups));
  throw InternalError("no optimizer is called " + plan.name);
}

}  // namespace kiln
