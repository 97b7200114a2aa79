// The names and shapes of the convolution weights of the known networks, used to recognize a state
// dict without building a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/catalogue.h"
#include "store/state_dict_file.h"

namespace kiln {

struct Kernel {
  std::string name;  // "model.conv1.weight"
  std::vector<std::int64_t> shape;
};
std::vector<Kernel> kernels_of(const KnownNetwork& network);

// Jaccard similarity of the convolutions of `state` and of `network`, by name and shape: from 0,
// none in common, to 1, exactly the same.
double likeness(const StateDict& state, const KnownNetwork& network);

// The network that is most similar to `state`; the first of several equally similar ones.
const KnownNetwork& nearest_network(const StateDict& state);

}  // namespace kiln
