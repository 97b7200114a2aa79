// Divides one dataset into two or three parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"
#include "data/split/leaks.h"

namespace kiln {

struct PartsRequest {
  std::vector<std::string> names;  // of the parts, for messages: "train", "test"
  std::vector<double> fractions;   // for each part; they add up to 1
  bool by_class = true;            // divide each class like this, as far as possible
  std::string group_by = {};       // base/path_pattern.h; empty: none
  bool keep_duplicates_together = false;
  std::uint64_t seed = 42;
};

struct PartedDataset {
  Dataset set;                      // all images; its notes say what differs from the request
  std::vector<std::uint8_t> parts;  // by image
  std::vector<Leak> leaks;
  std::string summary;  // "54 train, 6 test images of 3 classes, stratified by class"
};

// Checks the request against the dataset without reading any image. Throws Problems: Error
// kInvalidDataset for a single image, kNotInRangeValue for a fraction outside [1/n, 1 - 1/n],
// kUserError for a `group_by` that matches no path.
void check_parts(const Dataset& set, const PartsRequest& request);

// Images without a label are divided as a class of their own. The set must pass check_parts().
// Throws Error kInvalidDataset if there are fewer groups than parts.
PartedDataset split_into_parts(Dataset set, const PartsRequest& request, const ScanPlan& scan);

}  // namespace kiln
