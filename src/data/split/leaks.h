// Copies of images that lie on both sides of a split, or in both of two datasets: what a model is
// tested on, it has then seen.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/image_scan.h"

namespace kiln {

// Images that show the same picture, not all in one part.
struct Leak {
  bool same_bytes = false;            // some of those in different parts; else only look alike
  std::vector<std::uint32_t> images;  // two or more, in order
};

// `parts` has the part of each image. In the order of their first images.
std::vector<Leak> find_leaks(const DuplicatePairs& pairs, const std::vector<std::uint8_t>& parts);

// Images of `valid` have the numbers that follow those of `train`. Reads both, as scan_images()
// does.
std::vector<Leak> leaks_between(Dataset& train, Dataset& valid, const ScanPlan& scan);

}  // namespace kiln
