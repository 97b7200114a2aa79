#include "audit/copies.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/union_find.h"

namespace kiln {
std::vector<ImageCopy> find_copies(std::span<const std::uint64_t> hashes,
                                   std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                   std::span<const std::int32_t> labels) {
  std::vector<ImageCopy> copies;
  UnionFind together(hashes.size());
  const auto add = [&](std::uint32_t first, std::uint32_t other, bool is_exact) {
    if (together.unite(first, other))
      copies.push_back({std::min(first, other), std::max(first, other), is_exact,
                        labels[first] == labels[other]});
  };
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  for (std::uint32_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i] == 0) continue;
    const auto [entry, is_new] = known.emplace(hashes[i], i);
    if (!is_new) add(entry->second, i, /*is_exact=*/true);
  }
  for (const auto& [first, other] : near) add(first, other, /*is_exact=*/false);
  std::sort(copies.begin(), copies.end(), [](const ImageCopy& a, const ImageCopy& b) {
    return std::tuple(a.same_class, !a.is_exact, a.first, a.other) <
           std::tuple(b.same_class, !b.is_exact, b.first, b.other);
  });
  return copies;
}

}  // namespace kiln
