// Finds the images that occur more than once, within one data set or across two, and lists them for
// review.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/image_scan.h"

namespace kiln {

struct ImageCopy {
  std::uint32_t first = 0, other = 0;  // the earlier image and its copy
  bool is_exact = false;               // equal bytes; otherwise they look the same
  bool same_class = true;

  bool operator==(const ImageCopy&) const = default;
};

// Builds the list from pairs of byte-identical images and pairs that look alike; in each pair the
// lower number comes first. `labels`: [N]. Copies with different classes come first, since one of
// their labels must be wrong; then exact copies; then in the order of the images.
std::vector<ImageCopy> listed_copies(std::span<const std::pair<std::uint32_t, std::uint32_t>> exact,
                                     std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                     std::span<const std::int32_t> labels);

// A data set and the result of its scan.
struct ScannedSet {
  const Dataset& set;
  const ScannedImages& scanned;
};

// Exact copies and near-duplicates. With more than kMaxDecodedImages images only exact copies are
// found; this is logged.
DuplicatePairs copies_in(const ScannedImages& scanned, Log& log);

// The copies within one data set, from the pairs that copies_in() found.
std::vector<ImageCopy> copies_of_set(const Dataset& set, const DuplicatePairs& pairs);

// The copies within and across two data sets. Images of the second set are numbered after those of
// the first. Classes with the same name are the same class.
std::vector<ImageCopy> copies_of_sets(const ScannedSet& first, const ScannedSet& second, Log& log);

}  // namespace kiln
