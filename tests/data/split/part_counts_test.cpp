// The numbers of a split; parity.split compares many of them with scikit-learn's.
#include "data/split/part_counts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln {
namespace {

using Counts = std::vector<long long>;
using Table = std::vector<Counts>;

TEST(PartSizes, RoundDownAndTheLastHasTheRest) {
  EXPECT_EQ(part_sizes({0.9, 0.1}, 60), (Counts{54, 6}));
  EXPECT_EQ(part_sizes({0.29, 0.71}, 100), (Counts{28, 72}));  // 0.29 is a little less than that
  EXPECT_EQ(part_sizes({0.8, 0.1, 0.1}, 284), (Counts{227, 28, 29}));
}

TEST(PartSizes, LeaveNoPartEmpty) {
  for (long long n = 2; n < 300; ++n) {
    const double least = 1.0 / static_cast<double>(n);
    EXPECT_EQ(part_sizes({least, 1 - least}, n), (Counts{1, n - 1}));
    EXPECT_EQ(part_sizes({1 - least, least}, n)[1], 1) << n;
  }
}

TEST(ShareOut, GivesTheLargestRemaindersWhatLacks) {
  // 4.9, 4.9 and 4.2 images
  EXPECT_EQ(share_out({{"a", 7}, {"b", 7}, {"c", 6}}, {14, 6}).wanted,
            (Table{{5, 5, 4}, {2, 2, 2}}));
  EXPECT_EQ(share_out({{"a", 70}, {"b", 30}}, {28, 72}).wanted, (Table{{20, 8}, {50, 22}}));
}

TEST(ShareOut, DrawsTiesInTheOrderOfTheNames) {
  // What the original does with ten images each of zebra, ant and bee, at 0.35.
  EXPECT_EQ(share_out({{"zebra", 10}, {"ant", 10}, {"bee", 10}}, {10, 20}).wanted,
            (Table{{3, 4, 3}, {7, 6, 7}}));
}

TEST(ShareOut, DividesIntoThree) {
  const Table wanted = share_out({{"a", 50}, {"b", 33}, {"c", 17}}, {80, 10, 10}).wanted;
  ASSERT_EQ(wanted.size(), 3U);
  EXPECT_EQ(wanted[0], (Counts{40, 26, 14}));
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_EQ(wanted[0][c] + wanted[1][c] + wanted[2][c], (Counts{50, 33, 17})[c]);
  for (const Counts& part : wanted) EXPECT_GT(*std::min_element(part.begin(), part.end()), 0);
}

TEST(ShareOut, SaysWhyNotByClass) {
  EXPECT_EQ(share_out({{"a", 9}, {"b", 1}}, {5, 5}).why_not, "class 'b' has only 1 image");
  EXPECT_EQ(share_out({{"a", 9}, {"b", 2}}, {4, 4, 3}).why_not, "class 'b' has only 2 images");
  EXPECT_EQ(share_out({{"a", 9}, {"b", 9}}, {17, 1}).why_not,
            "the smallest part has 1 image, fewer than the 2 classes");
  EXPECT_TRUE(share_out({{"a", 9}, {"b", 1}}, {5, 5}).wanted.empty());
}

}  // namespace
}  // namespace kiln
