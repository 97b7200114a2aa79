#include "parallel/processors/processors.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/scratch_folder.h"
#include "parallel/device/device.h"

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

Parts parts_near(const std::vector<Processor>& all, const std::vector<int>& gpu_nodes) {
  Parts parts;
  for (std::size_t rank = 0; rank < gpu_nodes.size(); ++rank)
    parts.push_back(processors_of_rank(all, gpu_nodes, static_cast<int>(rank)));
  return parts;
}

// As on boards whose first GPU is on a later node.
TEST(Binding, ARankGetsCoresOfItsGpusNode) {
  EXPECT_EQ(parts_near(host(2, 2, 1), {1, 0}), (Parts{{2, 3}, {0, 1}}));
  EXPECT_EQ(parts_near(host(4, 1, 1), {3, 1, 0, 2}), (Parts{{3}, {1}, {0}, {2}}));
  EXPECT_EQ(parts_near(host(4, 2, 1), {3, 1}), (Parts{{4, 5, 6, 7}, {0, 1, 2, 3}}));
}

TEST(Binding, NoCoreIsLeftOutForTheNodesOfGpus) {
  EXPECT_EQ(parts_near(host(2, 2, 1), {-1, -1}), (Parts{{0, 1}, {2, 3}}));
  EXPECT_EQ(parts_near(host(2, 2, 2), {1, 1}), (Parts{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(parts_near(host(2, 2, 1), {7, 7}), (Parts{{0, 1}, {2, 3}}));
}

TEST(Binding, TheGpusNodeIsThatOfItsBusAddress) {
  const ScratchFolder sysfs;
  EXPECT_EQ(numa_node_of("0000:C1:00.0", sysfs.path()), -1);
  sysfs.put("bus/pci/devices/0000:c1:00.0/numa_node", "3\n");
  EXPECT_EQ(numa_node_of("0000:C1:00.0", sysfs.path()), 3);  // as CUDA writes it
  EXPECT_EQ(numa_node_of("0000:c2:00.0", sysfs.path()), -1);
  EXPECT_EQ(numa_node_of("", sysfs.path()), -1);
}

TEST(Binding, OnlyTheProcessorsThatThereAreAreDivided) {
  EXPECT_EQ(parts_of({{6, 6, 1}, {3, 3, 0}}, 2), (Parts{{3}, {6}}));
}

}  // namespace
}  // namespace kiln
