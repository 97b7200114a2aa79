// Which images of one dataset train, and which validate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"

namespace kiln {

enum class Side : std::uint8_t { kTrain, kValid };

// What is split: images by number. All vectors have one entry for each image.
struct SplitImages {
  std::vector<std::int32_t> labels;   // below num_classes
  std::vector<std::uint64_t> keys;    // split_keys()
  std::vector<std::uint32_t> groups;  // groups_of()
  std::size_t num_classes = 0;
};

// A number for each image, drawn from the seed and its bytes, or, where those are not known, from
// its path in the dataset. Up to kMostDecodedImages by their bytes; more by their paths.
std::vector<std::uint64_t> split_keys(const Dataset& set, const ScannedImages& scanned,
                                      std::uint64_t seed);

// In each class the images with the lowest keys validate, `fraction` of it, rounded, but at least
// one; a class keeps at least one image for training, too. A group goes to one side, as if all of
// it had the lowest key in it; then a class has the share that is nearest to `fraction`, taking
// groups in the order of their keys. A class with a single group stays in training. Pure: another
// image moves only images whose keys are near the border, or whose group it joins.
std::vector<Side> choose_sides(const SplitImages& images, double fraction);

}  // namespace kiln
