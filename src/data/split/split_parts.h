// Which images of one dataset go into which of two or more parts.
#pragma once

#include <cstdint>
#include <vector>

#include "data/split/split.h"

namespace kiln {

// By image: the number of its part. `wanted[p][c]` images of class c are wanted in part p; over the
// parts they add up to all images of the class. In the order of the keys, the last part takes what
// it lacks of each class, then the part before it, and the first one keeps the rest: without groups
// exactly what is wanted. A group goes as if all of it had its lowest key: at first only groups
// that are not too large, then those that bring the part nearer to what is wanted. Every part gets
// a group, and a class that is wanted in several parts stays in the first one where all of it is
// one group. There are at least as many groups as parts. Pure.
std::vector<std::uint8_t> choose_parts(const SplitImages& images,
                                       const std::vector<std::vector<long long>>& wanted);

}  // namespace kiln
