// The convolutions of the known networks, by the names and shapes of their weights: a state dict is
// recognized by them, and no network must be built for that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/catalogue.h"
#include "store/tensor.h"

namespace kiln {

struct Kernel {
  std::string name;  // "model.conv1.weight"
  std::vector<std::int64_t> shape;
};
std::vector<Kernel> kernels_of(const KnownNetwork& network);

// How much of the convolutions of `state` and of `network` together both have, name and shape: from
// 0, nothing, to 1, exactly the same ones.
double likeness(const StateDict& state, const KnownNetwork& network);

// The network that `state` is most like; the first of equals.
const KnownNetwork& nearest_network(const StateDict& state);

}  // namespace kiln
