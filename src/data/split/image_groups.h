// The groups of a split, each of which goes to one side as a whole. Shared by choose_sides() and
// choose_parts().
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "data/split/split.h"

namespace kiln {

struct ClassShare {
  std::size_t label = 0;
  long long count = 0;
};

struct ImageGroup {
  std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // the lowest key of its images
  std::vector<ClassShare> shares;                                 // classes of its images
  std::uint8_t part = 0;
};

// The groups, indexed by group number.
std::vector<ImageGroup> image_groups(const SplitImages& images);

// The group numbers, in the order of the groups' keys.
std::vector<std::size_t> by_key(const std::vector<ImageGroup>& groups);

}  // namespace kiln
