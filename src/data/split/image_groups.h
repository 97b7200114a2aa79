// The groups of a split, which go to one side each: what choose_sides() and choose_parts() share.
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
  std::uint64_t key = std::numeric_limits<std::uint64_t>::max();  // the lowest of its images
  std::vector<ClassShare> shares;                                 // of its images
  std::uint8_t part = 0;
};

// By number.
std::vector<ImageGroup> image_groups(const SplitImages& images);

// Their numbers in the order of their keys.
std::vector<std::size_t> by_key(const std::vector<ImageGroup>& groups);

}  // namespace kiln
