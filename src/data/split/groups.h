// Groups the images of a dataset that belong together, so that no image is judged by a model that
// was trained on another image of its group, and finds those that a split tears apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"
#include "data/split/near_duplicates.h"

namespace kiln {

// The lower number comes first in each pair. For images that are all alike there are only as many
// pairs as it takes to connect them.
struct DuplicatePairs {
  std::vector<ImagePair> exact;  // the same bytes
  std::vector<ImagePair> near;   // the same picture; each is the first image with its bytes
};

DuplicatePairs find_duplicates(const ScannedImages& scanned);

// The group number of each image, from 0, in the order of the groups' first images. Exact and near
// duplicates are in one group, and so are images for whose path (their name in the set) `group_by`
// gives the same group (base/path_pattern.h); an empty `group_by` groups nothing. Throws
// std::invalid_argument if `group_by` is not a valid pattern.
std::vector<std::uint32_t> groups_of(const Dataset& set, const DuplicatePairs& pairs,
                                     const std::string& group_by);

// Throws Error kUserError if a `group_by` that is not empty matches no path of the set.
void refuse_idle_pattern(const Dataset& set, const std::string& group_by);

// Images of the same picture that are not all in one part of a split, or not all in one of two
// datasets, so that a model is tested on images it has seen.
struct Leak {
  bool same_bytes = false;  // two in different parts have the same bytes; otherwise they look alike
  std::vector<std::uint32_t> images;  // two or more, in order
};

// `parts` has the part of each image. Leaks are in the order of their first images.
std::vector<Leak> find_leaks(const DuplicatePairs& pairs, const std::vector<std::uint8_t>& parts);

// Images of `valid` are numbered after those of `train`. Reads both, as scan_images() does.
std::vector<Leak> leaks_between(Dataset& train, Dataset& valid, const ScanPlan& scan);

}  // namespace kiln
