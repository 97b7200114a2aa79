// Divides one dataset into two or three parts, with as many images of each class in each part as
// the designer's Split Image Directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"

namespace kiln {

// Divides n images: floor(fraction * n) in each part, and the rest in the last one, but at least
// one in each. n is at least the number of fractions, none of which is less than 1/n.
std::vector<long long> part_sizes(const std::vector<double>& fractions, long long n);

struct ClassCounts {
  std::string name;
  long long count = 0;  // at least 1
};

struct PartCounts {
  std::vector<std::vector<long long>> wanted;  // [parts][classes]; empty: not by class
  std::string why_not;                         // a clause that says why `wanted` is empty
};

// Divides the images of each class among parts of these sizes, as scikit-learn's
// StratifiedShuffleSplit(random_state=42) does: each class gets its exact share, rounded down, and
// the remaining images go to the largest remainders; ties are broken by draws from its generator. A
// third part is split off from what the first one leaves. As in scikit-learn, the split is not by
// class if a class has fewer images than there are parts, or a part fewer images than there are
// classes.
PartCounts share_out(const std::vector<ClassCounts>& classes, const std::vector<long long>& sizes);

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
