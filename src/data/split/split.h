// Decides which images of a dataset are for training and which for validation, or which go into
// which of two or more parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"

namespace kiln {

enum class Side : std::uint8_t { kTrain, kValid };

// The images to split. All vectors have one entry per image.
struct SplitImages {
  std::vector<std::int32_t> labels;   // below num_classes
  std::vector<std::uint64_t> keys;    // split_keys()
  std::vector<std::uint32_t> groups;  // groups_of()
  std::size_t num_classes = 0;
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

}  // namespace kiln
