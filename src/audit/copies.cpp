#include "audit/copies.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace kiln {
namespace {

// Images that belong together, by the first of them.
class Families {
 public:
  explicit Families(std::size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  // False: they were together already.
  bool unite(std::uint32_t a, std::uint32_t b) {
    a = first_of(a);
    b = first_of(b);
    parents_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }

  std::uint32_t first_of(std::uint32_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }

 private:
  std::vector<std::uint32_t> parents_;
};

}  // namespace

std::vector<ImageCopy> find_copies(std::span<const std::uint64_t> hashes,
                                   std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                   std::span<const std::int32_t> labels) {
  std::vector<ImageCopy> copies;
  Families families(hashes.size());
  const auto add = [&](std::uint32_t first, std::uint32_t other, bool is_exact) {
    if (families.unite(first, other))
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

std::vector<std::uint32_t> families_of(
    std::size_t num_images, std::span<const std::pair<std::uint32_t, std::uint32_t>> pairs) {
  Families families(num_images);
  for (const auto& [first, other] : pairs) families.unite(first, other);
  std::vector<std::uint32_t> firsts;
  for (std::uint32_t i = 0; i < num_images; ++i) firsts.push_back(families.first_of(i));
  return firsts;
}

}  // namespace kiln
