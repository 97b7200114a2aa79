// Decides which images of a dataset go into which of two or more parts.
#pragma once

#include <cstdint>
#include <vector>

#include "data/split/split.h"

namespace kiln {

// The part number of each image. `wanted[p][c]` images of class c are wanted in part p; over the
// parts they add up to all images of the class. From the last part to the second, each takes the
// groups it needs in the order of their keys, and the first part keeps the rest. Without groups
// each part gets exactly what is wanted. A group goes to one part as a whole, placed by its lowest
// key: a part first takes groups of which it wants every image, then those that bring it closer to
// what is wanted. Every part gets at least one group. A class that is wanted in several parts but
// forms a single group stays in the first one. There must be at least as many groups as parts.
// Pure.
std::vector<std::uint8_t> choose_parts(const SplitImages& images,
                                       const std::vector<std::vector<long long>>& wanted);

}  // namespace kiln
