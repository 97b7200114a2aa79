// Decides which images of a dataset are for training and which for validation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"

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
// is unknown, its path in the dataset. With more than kMostDecodedImages images, always from their
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

}  // namespace kiln
