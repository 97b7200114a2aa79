// Which images of a dataset belong together, so that none of them may be judged by a model that
// has learned from another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"
#include "data/split/near_duplicates.h"

namespace kiln {

// The lower number comes first in each pair. Of images that are all alike, the pairs are as many
// as connect them.
struct DuplicatePairs {
  std::vector<ImagePair> exact;  // the same bytes
  std::vector<ImagePair> near;   // the same picture; each is the first image of its bytes
};

DuplicatePairs find_duplicates(const ScannedImages& scanned);

// By image: the number of its group, from 0, in the order of the groups' first images.
// Duplicates, exact and near, are in one group, and so are images for whose path (their name in
// the set) `group_by` gives the same group (base/path_pattern.h); empty: none. Throws
// std::invalid_argument for a `group_by` that is not a valid pattern.
std::vector<std::uint32_t> groups_of(const Dataset& set, const DuplicatePairs& pairs,
                                     const std::string& group_by);

// Throws Error kUserError for a `group_by` that matches no path of the set.
void refuse_idle_pattern(const Dataset& set, const std::string& group_by);

}  // namespace kiln
