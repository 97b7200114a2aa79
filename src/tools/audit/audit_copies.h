// Finds images that occur more than once, within one data set or across two.
#pragma once

#include <vector>

#include "base/log.h"
#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/image_scan.h"
#include "tools/audit/copies.h"

namespace kiln {

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
