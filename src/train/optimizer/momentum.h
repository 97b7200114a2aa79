// Parameter groups with one momentum tensor per parameter: the state of SGD and LARS.
#pragma once

#include <string>
#include <vector>

#include "train/optimizer/optimizer.h"

namespace kiln {

struct MomentumGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters, gradients, momenta;  // in the same order
  double weight_decay, rate;
};

// Adds momenta, initially zero.
std::vector<MomentumGroup> with_momenta(std::vector<ParameterGroup> groups);

// The momenta under the names "momentum.PARAMETER", for Optimizer::state(). Not copies.
std::vector<NamedTensor> named_momenta(const std::vector<MomentumGroup>& groups);

}  // namespace kiln
