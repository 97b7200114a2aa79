#include "base/union_find.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kiln {
namespace {

TEST(UnionFind, SetsAreNamedByTheirFirst) {
  UnionFind sets(6);
  for (const auto& [a, b] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{4, 2}, {2, 1}, {5, 3}})
    EXPECT_TRUE(sets.unite(a, b));
  EXPECT_FALSE(sets.unite(1, 4));
  std::vector<std::uint32_t> roots;
  for (std::uint32_t i = 0; i < 6; ++i) roots.push_back(sets.root_of(i));
  EXPECT_EQ(roots, (std::vector<std::uint32_t>{0, 1, 1, 3, 1, 3}));
}

}  // namespace
}  // namespace kiln
