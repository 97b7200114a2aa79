// Images that are there more than once: in one data set, or in two.
#pragma once

#include <vector>

#include "audit/copies.h"
#include "base/log.h"
#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/image_scan.h"

namespace kiln {

// A data set, and what its scan found.
struct ScannedSet {
  const Dataset& set;
  const ScannedImages& scanned;
};

// Exact and near ones; of more than kMostDecodedImages only exact ones, which is logged.
DuplicatePairs copies_in(const ScannedImages& scanned, Log& log);

// The copies within one data set, by the pairs that copies_in() found.
std::vector<ImageCopy> copies_of_set(const Dataset& set, const DuplicatePairs& pairs);

// The copies within and across two data sets; images of the second have the numbers that follow
// those of the first. Classes of one name are the same class.
std::vector<ImageCopy> copies_of_sets(const ScannedSet& first, const ScannedSet& second, Log& log);

}  // namespace kiln
