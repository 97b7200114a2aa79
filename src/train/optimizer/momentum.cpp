#include "train/optimizer/momentum.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace kiln {

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
