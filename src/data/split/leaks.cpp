#include "data/split/leaks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/union_find.h"

namespace kiln {

std::vector<Leak> find_leaks(const DuplicatePairs& pairs, const std::vector<std::uint8_t>& parts) {
  UnionFind united(parts.size());
  for (const auto* list : {&pairs.exact, &pairs.near})
    for (const auto& [a, b] : *list) united.unite(a, b);
  std::map<std::uint32_t, Leak> copies;  // by the lowest image of each group
  for (const auto* list : {&pairs.exact, &pairs.near})
    for (const auto& [a, b] : *list)
      for (const std::uint32_t i : {a, b}) copies[united.root_of(i)].images.push_back(i);
  // Images with the same bytes are all paired with the first of them, so if any two of them are in
  // different parts, then so is one of these pairs.
  for (const auto& [a, b] : pairs.exact)
    if (parts[a] != parts[b]) copies[united.root_of(a)].same_bytes = true;
  std::vector<Leak> leaks;
  for (auto& [root, leak] : copies) {
    std::vector<std::uint32_t>& images = leak.images;
    std::sort(images.begin(), images.end());
    images.erase(std::unique(images.begin(), images.end()), images.end());
    if (std::any_of(images.begin(), images.end(),
                    [&](std::uint32_t i) { return parts[i] != parts[images.front()]; }))
      leaks.push_back(std::move(leak));
  }
  return leaks;
}

std::vector<Leak> leaks_between(Dataset& train, Dataset& valid, const ScanPlan& scan) {
  const ScannedImages scanned = scan_images(train, valid, scan);
  std::vector<std::uint8_t> parts(train.samples.size(), 0);
  parts.resize(scanned.hashes.size(), 1);
  return find_leaks(find_duplicates(scanned), parts);
}

}  // namespace kiln
