// Images that are in a data set more than once, as a list to look at.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kiln {

struct ImageCopy {
  std::uint32_t first = 0, other = 0;  // the earlier one and its copy
  bool is_exact = false;               // the same bytes; else it looks the same
  bool same_class = true;

  bool operator==(const ImageCopy&) const = default;
};

// Of pairs that are the same byte for byte, and of pairs that look alike; the lower number comes
// first in each. `labels`: [N]. Copies of two classes come first, since one of their labels is
// wrong; then exact ones; then by place.
std::vector<ImageCopy> listed_copies(std::span<const std::pair<std::uint32_t, std::uint32_t>> exact,
                                     std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                     std::span<const std::int32_t> labels);

}  // namespace kiln
