#include "data/split/groups.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/path_pattern.h"
#include "base/text.h"
#include "base/union_find.h"

namespace kiln {

DuplicatePairs find_duplicates(const ScannedImages& scanned) {
  DuplicatePairs pairs;
  std::unordered_map<std::uint64_t, std::uint32_t> first_of;
  std::vector<LookPrint> looks = scanned.looks;
  for (std::uint32_t i = 0; i < scanned.hashes.size(); ++i) {
    if (scanned.hashes[i] == 0) continue;
    const auto [first, is_new] = first_of.emplace(scanned.hashes[i], i);
    if (is_new) continue;
    pairs.exact.emplace_back(first->second, i);
    if (!looks.empty()) looks[i] = {};
  }
  pairs.near = near_duplicates(looks);
  return pairs;
}

std::vector<std::uint32_t> groups_of(const Dataset& set, const DuplicatePairs& pairs,
                                     const std::string& group_by) {
  const auto count = static_cast<std::uint32_t>(set.samples.size());
  UnionFind united(count);
  for (const auto* list : {&pairs.exact, &pairs.near})
    for (const auto& [a, b] : *list) united.unite(a, b);
  if (!group_by.empty()) {
    const PathPattern pattern(group_by);
    std::unordered_map<std::string, std::uint32_t> first_of;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string group = pattern.group_of(set.samples.file_name(i));
      if (!group.empty()) united.unite(first_of.emplace(group, i).first->second, i);
    }
  }
  std::vector<std::uint32_t> groups(count);
  std::uint32_t num_groups = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t root = united.root_of(i);  // the lowest image of its group
    groups[i] = root == i ? num_groups++ : groups[root];
  }
  return groups;
}

void refuse_idle_pattern(const Dataset& set, const std::string& group_by) {
  if (group_by.empty()) return;
  const PathPattern pattern(group_by);
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (!pattern.group_of(set.samples.file_name(i)).empty()) return;
  throw Error(ErrorCode::kUserError, "--group-by '" + group_by + "' matches no path in '" +
                                         set.root.string() + "': the first is '" +
                                         printable(set.samples.file_name(0)) +
                                         "'. Give a regular expression that matches such paths.");
}

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
