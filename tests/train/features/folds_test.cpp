#include "train/features/head_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace kiln {
namespace {

// Images of the class in each fold.
std::vector<int> counts(const Folds& folds, const std::vector<std::int32_t>& labels, int label) {
  std::vector<int> found(static_cast<std::size_t>(folds.count));
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] == label) ++found[static_cast<std::size_t>(folds.of[i])];
  return found;
}

TEST(Folds, EveryClassIsSpreadEvenly) {
  std::vector<std::int32_t> labels;
  for (const auto& [label, images] : std::map<int, int>{{0, 40}, {1, 23}, {2, 7}, {3, 1}})
    labels.insert(labels.end(), static_cast<std::size_t>(images), label);
  const Folds folds = divided_into_folds(labels, {}, 5, 1);
  ASSERT_EQ(folds.count, 5);
  std::vector<int> sizes(5);
  for (int label = 0; label < 4; ++label) {
    const std::vector<int> found = counts(folds, labels, label);
    const auto [fewest, most] = std::minmax_element(found.begin(), found.end());
    EXPECT_LE(*most - *fewest, 1) << label;
    for (std::size_t fold = 0; fold < 5; ++fold) sizes[fold] += found[fold];
  }
  const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
  EXPECT_LE(*largest - *smallest, 1);
}

TEST(Folds, GroupsStayTogether) {
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> groups;
  for (std::uint32_t i = 0; i < 90; ++i) {
    labels.push_back(static_cast<std::int32_t>(i % 3));
    groups.push_back(1000 - i / 4);
  }
  const Folds folds = divided_into_folds(labels, groups, 4, 7);
  ASSERT_EQ(folds.count, 4);
  std::map<std::uint32_t, std::set<int>> places;
  for (std::size_t i = 0; i < groups.size(); ++i) places[groups[i]].insert(folds.of[i]);
  for (const auto& [group, parts] : places) EXPECT_EQ(parts.size(), 1U) << group;
  for (int label = 0; label < 3; ++label)
    for (const int count : counts(folds, labels, label)) EXPECT_GE(count, 5);
}

TEST(Folds, GoByTheSeedAlone) {
  const std::vector<std::int32_t> labels(50, 0);
  EXPECT_EQ(divided_into_folds(labels, {}, 5, 3).of, divided_into_folds(labels, {}, 5, 3).of);
  EXPECT_NE(divided_into_folds(labels, {}, 5, 3).of, divided_into_folds(labels, {}, 5, 4).of);
}

TEST(Folds, ThereAreNoMoreThanGroups) {
  const std::vector<std::int32_t> labels = {0, 1, 0};
  EXPECT_EQ(divided_into_folds(labels, {}, 5, 1).count, 3);
  const std::vector<std::uint32_t> one_group = {8, 8, 8};
  EXPECT_EQ(divided_into_folds(labels, one_group, 5, 1).count, 0);
  EXPECT_EQ(divided_into_folds({}, {}, 5, 1).count, 0);
}

}  // namespace
}  // namespace kiln
