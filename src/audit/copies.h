// Images that are in a data set more than once.
#pragma once

#include <cstddef>
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

// Each image that repeats an earlier one, once: byte for byte by `hashes` ([N], 0: unknown), else
// by `near` (pairs that look alike). Those of two classes come first, since one of their labels is
// wrong; then exact ones; then by place.
std::vector<ImageCopy> find_copies(std::span<const std::uint64_t> hashes,
                                   std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                   std::span<const std::int32_t> labels);

}  // namespace kiln
