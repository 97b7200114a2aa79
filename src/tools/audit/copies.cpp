#include "tools/audit/copies.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "base/text.h"

namespace kiln {
namespace {

template <typename T>
void append(std::vector<T>& list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// The labels of several sets. Classes with the same name get the same number.
class SharedLabels {
 public:
  void add(const Dataset& set) {
    for (std::size_t i = 0; i < set.samples.size(); ++i) {
      const std::string& name = set.classes[static_cast<std::size_t>(set.samples.label(i))];
      const auto next = static_cast<std::int32_t>(numbers_.size());
      labels_.push_back(numbers_.emplace(name, next).first->second);
    }
  }
  const std::vector<std::int32_t>& labels() const { return labels_; }

 private:
  std::map<std::string, std::int32_t> numbers_;
  std::vector<std::int32_t> labels_;
};

}  // namespace

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

DuplicatePairs copies_in(const ScannedImages& scanned, Log& log) {
  if (scanned.hashes.size() <= kMaxDecodedImages) return find_duplicates(scanned);
  log.info("copies:    only byte-identical ones, since there are more than " +
           grouped(static_cast<long long>(kMaxDecodedImages)) + " images");
  return find_duplicates({scanned.hashes, {}});
}

std::vector<ImageCopy> copies_of_set(const Dataset& set, const DuplicatePairs& pairs) {
  SharedLabels shared;
  shared.add(set);
  return listed_copies(pairs.exact, pairs.near, shared.labels());
}

std::vector<ImageCopy> copies_of_sets(const ScannedSet& first, const ScannedSet& second, Log& log) {
  ScannedImages both = first.scanned;
  append(both.hashes, second.scanned.hashes);
  append(both.looks, second.scanned.looks);
  SharedLabels shared;
  shared.add(first.set);
  shared.add(second.set);
  const DuplicatePairs pairs = copies_in(both, log);
  return listed_copies(pairs.exact, pairs.near, shared.labels());
}

}  // namespace kiln
