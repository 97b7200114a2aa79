#include "train/features/folds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/random.h"

namespace kiln {
namespace {

// Images that must stay in the same fold.
struct Group {
  std::vector<std::uint32_t> images;
  std::map<std::int32_t, int> classes;  // number of images by class
};

// The groups from largest to smallest, since large ones are the hardest to place; groups of equal
// size are in random order.
std::vector<Group> groups_in_order(std::span<const std::int32_t> labels,
                                   std::span<const std::uint32_t> numbers, std::uint64_t seed) {
  constexpr std::uint64_t kPurpose = 0x666f6c6473;  // "folds"
  std::vector<Group> groups;
  std::map<std::uint32_t, std::size_t> places;  // indices into `groups`, by group number
  for (const std::uint32_t image :
       permutation(static_cast<std::uint32_t>(labels.size()), {kPurpose, seed})) {
    const std::uint32_t number = numbers.empty() ? image : numbers[image];
    const auto [place, is_new] = places.emplace(number, groups.size());
    if (is_new) groups.emplace_back();
    Group& group = groups[place->second];
    group.images.push_back(image);
    ++group.classes[labels[image]];
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& one, const Group& other) {
    return one.images.size() > other.images.size();
  });
  return groups;
}

// The contents of one fold so far.
struct Fold {
  std::size_t images = 0;
  std::map<std::int32_t, int> classes;

  // How full the fold already is with the classes of the group.
  double crowding(const Group& group, const std::map<std::int32_t, int>& totals) const {
    double sum = 0;
    for (const auto& [label, count] : group.classes)
      if (const auto mine = classes.find(label); mine != classes.end())
        sum += static_cast<double>(count) * mine->second / totals.at(label);
    return sum;
  }
};

}  // namespace

Folds divided_into_folds(std::span<const std::int32_t> labels,
                         std::span<const std::uint32_t> groups, int num_folds, std::uint64_t seed) {
  const std::vector<Group> in_order = groups_in_order(labels, groups, seed);
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(num_folds), in_order.size());
  if (count < 2) return {};
  std::map<std::int32_t, int> totals;
  for (const std::int32_t label : labels) ++totals[label];
  std::vector<Fold> folds(count);
  Folds result{static_cast<int>(count), std::vector<int>(labels.size())};
  for (const Group& group : in_order) {
    const auto rank = [&](const Fold& fold) {
      return std::pair(fold.crowding(group, totals), fold.images);
    };
    const auto best = std::min_element(
        folds.begin(), folds.end(),
        [&](const Fold& one, const Fold& other) { return rank(one) < rank(other); });
    best->images += group.images.size();
    for (const auto& [label, images] : group.classes) best->classes[label] += images;
    for (const std::uint32_t image : group.images)
      result.of[image] = static_cast<int>(best - folds.begin());
  }
  return result;
}

}  // namespace kiln
