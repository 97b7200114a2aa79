#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/split/drawn_images.h"
#include "data/split/groups.h"
#include "data/split/split.h"

namespace kiln {
namespace {

using Table = std::vector<std::vector<long long>>;

struct DrawnParts : DrawnImages {
  Table counts(const Table& wanted) const {
    Table counts(wanted.size(), std::vector<long long>(images.num_classes));
    const std::vector<std::uint8_t> parts = choose_parts(images, wanted);
    for (std::size_t i = 0; i < parts.size(); ++i)
      ++counts[parts[i]][static_cast<std::size_t>(images.labels[i])];
    return counts;
  }
  void expect_whole_groups(const std::vector<std::uint8_t>& parts) const {
    std::map<std::uint32_t, std::uint8_t> part_of;
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_EQ(part_of.emplace(images.groups[i], parts[i]).first->second, parts[i]);
  }
};

TEST(ChooseParts, WithoutGroupsGivesWhatIsWanted) {
  DrawnParts drawn;
  drawn.add(0, 50);
  drawn.add(1, 33);
  drawn.add(2, 2);
  for (const Table& wanted : {Table{{45, 29, 2}, {5, 4, 0}}, Table{{1, 32, 0}, {49, 1, 2}},
                              Table{{40, 27, 1}, {5, 3, 1}, {5, 3, 0}}})
    EXPECT_EQ(drawn.counts(wanted), wanted);
}

TEST(ChooseParts, AddedImagesMoveFew) {
  DrawnParts drawn;
  drawn.add(0, 500);
  const std::vector<std::uint8_t> before = choose_parts(drawn.images, {{400}, {50}, {50}});
  drawn.add(0, 10);
  const std::vector<std::uint8_t> after = choose_parts(drawn.images, {{408}, {51}, {51}});
  int num_moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) num_moved += before[i] != after[i] ? 1 : 0;
  EXPECT_LE(num_moved, 20);
}

TEST(ChooseParts, GroupsGoToOnePartAndSingleImagesFillUp) {
  DrawnParts drawn;
  for (int i = 0; i < 20; ++i) drawn.add_group(std::vector<std::int32_t>(2 + i % 7, i % 2));
  drawn.add(0, 30);
  drawn.add(1, 30);
  const auto all = static_cast<long long>(drawn.images.labels.size());
  const auto of_1 =
      static_cast<long long>(std::count(drawn.images.labels.begin(), drawn.images.labels.end(), 1));
  const Table wanted = {{all - of_1 - 13, of_1 - 11}, {13, 11}};
  EXPECT_EQ(drawn.counts(wanted), wanted);
  drawn.expect_whole_groups(choose_parts(drawn.images, wanted));
}

TEST(ChooseParts, LargeGroupsComeNear) {
  DrawnParts drawn;
  for (int i = 0; i < 6; ++i) drawn.add_group(std::vector<std::int32_t>(10, 0));
  EXPECT_EQ(drawn.counts({{54}, {6}}), (Table{{50}, {10}}));
  EXPECT_EQ(drawn.counts({{56}, {4}}), (Table{{50}, {10}}));  // no part is empty
  EXPECT_EQ(drawn.counts({{20}, {20}, {20}}), (Table{{20}, {20}, {20}}));
  EXPECT_EQ(drawn.counts({{1}, {1}, {58}}), (Table{{10}, {10}, {40}}));
}

TEST(ChooseParts, AClassOfOneGroupStaysInTheFirstPart) {
  DrawnParts drawn;
  drawn.add_group({0, 0, 0, 0});
  drawn.add(1, 10);
  EXPECT_EQ(drawn.counts({{1, 3}, {3, 7}}), (Table{{4, 3}, {0, 7}}));
}

TEST(FindLeaks, NamesCopiesThatArePartedOnly) {
  const DuplicatePairs pairs = {.exact = {{0, 3}, {1, 2}}, .near = {{3, 5}, {4, 6}}};
  const std::vector<Leak> leaks = find_leaks(pairs, {0, 1, 1, 1, 0, 1, 1, 0});
  ASSERT_EQ(leaks.size(), 2U);
  EXPECT_TRUE(leaks[0].same_bytes);
  EXPECT_EQ(leaks[0].images, (std::vector<std::uint32_t>{0, 3, 5}));
  EXPECT_FALSE(leaks[1].same_bytes);
  EXPECT_EQ(leaks[1].images, (std::vector<std::uint32_t>{4, 6}));
  EXPECT_TRUE(find_leaks(pairs, std::vector<std::uint8_t>(8, 1)).empty());
}

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
