#include "data/split/split_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/split/drawn_images.h"
#include "data/split/leaks.h"

namespace kiln {
namespace {

using Table = std::vector<std::vector<long long>>;

struct Drawn : DrawnImages {
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
  Drawn drawn;
  drawn.add(0, 50);
  drawn.add(1, 33);
  drawn.add(2, 2);
  for (const Table& wanted : {Table{{45, 29, 2}, {5, 4, 0}}, Table{{1, 32, 0}, {49, 1, 2}},
                              Table{{40, 27, 1}, {5, 3, 1}, {5, 3, 0}}})
    EXPECT_EQ(drawn.counts(wanted), wanted);
}

TEST(ChooseParts, AddedImagesMoveFew) {
  Drawn drawn;
  drawn.add(0, 500);
  const std::vector<std::uint8_t> before = choose_parts(drawn.images, {{400}, {50}, {50}});
  drawn.add(0, 10);
  const std::vector<std::uint8_t> after = choose_parts(drawn.images, {{408}, {51}, {51}});
  int num_moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) num_moved += before[i] != after[i] ? 1 : 0;
  EXPECT_LE(num_moved, 20);
}

TEST(ChooseParts, GroupsGoToOnePartAndSingleImagesFillUp) {
  Drawn drawn;
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
  Drawn drawn;
  for (int i = 0; i < 6; ++i) drawn.add_group(std::vector<std::int32_t>(10, 0));
  EXPECT_EQ(drawn.counts({{54}, {6}}), (Table{{50}, {10}}));
  EXPECT_EQ(drawn.counts({{56}, {4}}), (Table{{50}, {10}}));  // no part is empty
  EXPECT_EQ(drawn.counts({{20}, {20}, {20}}), (Table{{20}, {20}, {20}}));
  EXPECT_EQ(drawn.counts({{1}, {1}, {58}}), (Table{{10}, {10}, {40}}));
}

TEST(ChooseParts, AClassOfOneGroupStaysInTheFirstPart) {
  Drawn drawn;
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

}  // namespace
}  // namespace kiln
