#include "process/binding.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

// Numbered as Linux does: all cores of one thread each, then the cores' second threads.
std::vector<Processor> host(int nodes, int cores_per_node, int threads_per_core) {
  std::vector<Processor> all;
  const int cores = nodes * cores_per_node;
  for (int thread = 0; thread < threads_per_core; ++thread)
    for (int core = 0; core < cores; ++core)
      all.push_back({thread * cores + core, core, core / cores_per_node});
  return all;
}

using Parts = std::vector<std::vector<int>>;

Parts parts_of(const std::vector<Processor>& all, int count) {
  Parts parts;
  for (int index = 0; index < count; ++index)
    parts.push_back(processors_of_part(all, index, count));
  return parts;
}

TEST(Binding, PartsAreWholeCores) {
  EXPECT_EQ(parts_of(host(1, 4, 2), 2), (Parts{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(parts_of(host(1, 2, 1), 2), (Parts{{0}, {1}}));
}

TEST(Binding, PartsAreEqualAndWhatIsLeftIsNobodys) {
  EXPECT_EQ(parts_of(host(1, 8, 1), 3), (Parts{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(Binding, APartLiesOnOneMemoryNode) {
  // Neighboring numbers are on different nodes, as on some hosts.
  std::vector<Processor> all;
  for (int number = 0; number < 8; ++number) all.push_back({number, number, number % 2});
  EXPECT_EQ(parts_of(all, 4), (Parts{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
}

TEST(Binding, MoreRanksThanCoresAreNotBound) {
  EXPECT_EQ(parts_of(host(1, 2, 2), 3), (Parts{{}, {}, {}}));
}

TEST(Binding, OnlyTheProcessorsThatThereAreAreDivided) {
  EXPECT_EQ(parts_of({{6, 6, 1}, {3, 3, 0}}, 2), (Parts{{3}, {6}}));
}

}  // namespace
}  // namespace kiln
