// A list of the images that occur more than once in a data set, for review.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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

}  // namespace kiln
