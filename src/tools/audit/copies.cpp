#include "tools/audit/copies.h"

#include <algorithm>
#include <tuple>

namespace kiln {

std::vector<ImageCopy> listed_copies(std::span<const std::pair<std::uint32_t, std::uint32_t>> exact,
                                     std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                     std::span<const std::int32_t> labels) {
  std::vector<ImageCopy> copies;
  const auto add = [&](const auto& pairs, bool is_exact) {
    for (const auto& [first, other] : pairs)
      copies.push_back({first, other, is_exact, labels[first] == labels[other]});
  };
  add(exact, /*is_exact=*/true);
  add(near, /*is_exact=*/false);
  std::sort(copies.begin(), copies.end(), [](const ImageCopy& a, const ImageCopy& b) {
    return std::tuple(a.same_class, !a.is_exact, a.first, a.other) <
           std::tuple(b.same_class, !b.is_exact, b.first, b.other);
  });
  return copies;
}

}  // namespace kiln
