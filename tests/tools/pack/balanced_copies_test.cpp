#include "tools/pack/pack.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln {
namespace {

TEST(BalancedCopies, GiveEveryClassAsManyAsTheLargest) {
  SampleTable samples;
  for (const int label : {0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 3})  // class 1 has none
    samples.push_back({.file_name = "x", .label = label, .id = 0, .size = {}});
  const std::vector<std::uint32_t> order = balanced_copies(samples, 1);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order.size(), 21U);
  std::vector<long long> copies;
  for (std::uint32_t i = 0; i < 11; ++i)
    copies.push_back(std::count(order.begin(), order.end(), i));
  EXPECT_EQ(std::count(copies.begin(), copies.begin() + 7, 1), 7);
  std::sort(copies.begin() + 7, copies.begin() + 10);
  EXPECT_EQ(std::vector<long long>(copies.begin() + 7, copies.end()),
            (std::vector<long long>{2, 2, 3, 7}));
  EXPECT_EQ(balanced_copies(samples, 1), order);
}

}  // namespace
}  // namespace kiln
