// Images divided into parts of which each is judged by a model that has learned from the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

struct Folds {
  int count = 0;        // 0: the images cannot be divided
  std::vector<int> of;  // the part of each image, from 0
};

// As even a share of every class in every part as whole groups allow: images of one group are in
// one part. `groups`: a number for each image; empty: each image is a group. There are fewer parts
// where there are fewer groups, and none for a single group. Depends on nothing but the arguments.
Folds divided_into_folds(std::span<const std::int32_t> labels,
                         std::span<const std::uint32_t> groups, int num_folds, std::uint64_t seed);

}  // namespace kiln
