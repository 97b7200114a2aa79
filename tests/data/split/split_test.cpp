#include "data/split/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/split/drawn_images.h"

namespace kiln {
namespace {

struct Drawn : DrawnImages {
  std::vector<long long> valid_counts(double fraction) const {
    std::vector<long long> counts(images.num_classes);
    const std::vector<Side> sides = choose_sides(images, fraction);
    for (std::size_t i = 0; i < sides.size(); ++i)
      if (sides[i] == Side::kValid) ++counts[static_cast<std::size_t>(images.labels[i])];
    return counts;
  }
};

TEST(ChooseSides, TakesTheShareOfEachClass) {
  Drawn drawn;
  drawn.add(0, 100);
  drawn.add(1, 7);
  drawn.add(2, 2);
  drawn.add(3, 1);
  EXPECT_EQ(drawn.valid_counts(0.2), (std::vector<long long>{20, 1, 1, 0}));
  EXPECT_EQ(drawn.valid_counts(0.001), (std::vector<long long>{1, 1, 1, 0}));
  EXPECT_EQ(drawn.valid_counts(0.999), (std::vector<long long>{99, 6, 1, 0}));
}

TEST(ChooseSides, TakesTheLowestKeys) {
  Drawn drawn;
  drawn.add(0, 50);
  const std::vector<Side> sides = choose_sides(drawn.images, 0.3);
  std::uint64_t highest_valid = 0, lowest_train = UINT64_MAX;
  for (std::size_t i = 0; i < sides.size(); ++i)
    if (sides[i] == Side::kValid)
      highest_valid = std::max(highest_valid, drawn.images.keys[i]);
    else
      lowest_train = std::min(lowest_train, drawn.images.keys[i]);
  EXPECT_LT(highest_valid, lowest_train);
}

TEST(ChooseSides, AddedImagesMoveFew) {
  Drawn drawn;
  drawn.add(0, 500);
  drawn.add(1, 500);
  const std::vector<Side> before = choose_sides(drawn.images, 0.2);
  drawn.add(0, 10);
  const std::vector<Side> after = choose_sides(drawn.images, 0.2);
  int num_moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) num_moved += before[i] != after[i] ? 1 : 0;
  EXPECT_LE(num_moved, 10);
}

TEST(ChooseSides, KeepsGroupsTogetherAndComesNear) {
  Drawn drawn;
  for (int i = 0; i < 40; ++i) drawn.add_group(std::vector<std::int32_t>(1 + i % 5, i % 2));
  drawn.add_group({0, 1, 1, 0});
  std::map<std::uint32_t, Side> side_of;
  const std::vector<Side> sides = choose_sides(drawn.images, 0.25);
  for (std::size_t i = 0; i < sides.size(); ++i)
    EXPECT_EQ(side_of.emplace(drawn.images.groups[i], sides[i]).first->second, sides[i]);
  const std::vector<long long> counts = drawn.valid_counts(0.25);
  for (std::size_t c = 0; c < 2; ++c) {
    const auto all = std::count(drawn.images.labels.begin(), drawn.images.labels.end(),
                                static_cast<std::int32_t>(c));
    EXPECT_NEAR(static_cast<double>(counts[c]), 0.25 * static_cast<double>(all), 3);
  }
}

TEST(ChooseSides, GivesAClassOfLargeGroupsOneOfThem) {
  Drawn drawn;
  drawn.add_group(std::vector<std::int32_t>(60, 0));
  drawn.add_group(std::vector<std::int32_t>(50, 0));
  drawn.add(1, 10);
  EXPECT_EQ(drawn.valid_counts(0.1), (std::vector<long long>{50, 1}));
}

TEST(ChooseSides, LeavesAClassOfOneGroupInTraining) {
  Drawn drawn;
  drawn.add_group({0, 0, 0, 1});
  drawn.add(1, 9);
  EXPECT_EQ(drawn.valid_counts(0.9)[0], 0);
  Drawn one;
  one.add_group({0, 1, 0, 1});
  EXPECT_EQ(one.valid_counts(0.5), (std::vector<long long>{0, 0}));
}

TEST(SplitKeys, FollowTheBytesElseThePath) {
  Dataset set;
  for (const char* name : {"a.jpg", "b.jpg", "c.jpg"})
    set.samples.push_back({.file_name = name, .label = 0, .id = 0, .size = {}});
  const ScannedImages scanned{.hashes = {7, 7, 0}, .looks = {}};
  const auto keys = split_keys(set, scanned, 1), others = split_keys(set, scanned, 2);
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[0], keys[2]);
  EXPECT_NE(keys[0], others[0]);
}

}  // namespace
}  // namespace kiln
