// Decides which images of a dataset are for training and which for validation, or divides it into
// two or three parts, with as many images of each class in each part as the designer's Split Image
// Directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"

namespace kiln {

enum class Side : std::uint8_t { kTrain, kValid };

// The images to split. All vectors have one entry per image.
struct SplitImages {
  std::vector<std::int32_t> labels;   // of classes below num_classes
  std::vector<std::uint64_t> keys;    // split_keys()
  std::vector<std::uint32_t> groups;  // groups_of()
  std::size_t num_classes = 0;
  LabelClasses classes = {};  // of the labels
};

// A pseudorandom number for each image, derived from the seed and a hash of its bytes or, if that
// is unknown, its path in the dataset. With more than kMaxDecodedImages images, always from their
// paths.
std::vector<std::uint64_t> split_keys(const Dataset& set, const ScannedImages& scanned,
                                      std::uint64_t seed);

// In each class the images with the lowest keys are for validation: `fraction` of the class,
// rounded, but at least one, and at least one stays for training. A group goes to one side as a
// whole, placed by the lowest key in it: groups are taken in the order of their keys if they bring
// their classes closer to `fraction`. A class that then has no validation images gets the group
// that changes the shares least; a class with a single group stays in training. Pure. Adding an
// image moves only images whose keys are near the border, or whose group it joins.
std::vector<Side> choose_sides(const SplitImages& images, double fraction);

// The part number of each image. `wanted[p][c]` images of class c are wanted in part p; over the
// parts they add up to all images of the class. From the last part to the second, each takes the
// groups it needs in the order of their keys, and the first part keeps the rest. Without groups
// each part gets exactly what is wanted. A group goes to one part as a whole, placed by its lowest
// key: a part first takes groups of which it wants every image, then those that bring it closer to
// what is wanted. Every part gets at least one group. A class that is wanted in several parts but
// forms a single group stays in the first one. There must be at least as many groups as parts.
// Pure.
std::vector<std::uint8_t> choose_parts(const SplitImages& images,
                                       const std::vector<std::vector<long long>>& wanted);

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
// kUserError for a `group_by` that matches no path. Notes the paths that it does not match.
void check_parts(const PartsRequest& request, Dataset& set);

// Images without a label are divided as a class of their own. The set must pass check_parts().
// Throws Error kInvalidDataset if there are fewer groups than parts.
PartedDataset split_into_parts(Dataset set, const PartsRequest& request, const ScanPlan& scan);

}  // namespace kiln
