// Finds copies of images that are in different parts of a split, or in both of two datasets, so
// that a model is tested on images it has seen.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/image_scan.h"

namespace kiln {

// Images of the same picture that are not all in one part.
struct Leak {
  bool same_bytes = false;  // two in different parts have the same bytes; otherwise they look alike
  std::vector<std::uint32_t> images;  // two or more, in order
};

// `parts` has the part of each image. Leaks are in the order of their first images.
std::vector<Leak> find_leaks(const DuplicatePairs& pairs, const std::vector<std::uint8_t>& parts);

// Images of `valid` are numbered after those of `train`. Reads both, as scan_images() does.
std::vector<Leak> leaks_between(Dataset& train, Dataset& valid, const ScanPlan& scan);

}  // namespace kiln
