#include "base/system.h"

#include <gtest/gtest.h>

#include "data/scratch_folder.h"

namespace kiln {
namespace {

constexpr long long kMiB = 1 << 20;

std::string mib(long long count) {
  return std::to_string(count * kMiB) + "\n";
}

TEST(MemoryLeft, IsTheLeastOfAllGroupsAbove) {
  const ScratchFolder root;
  EXPECT_GT(memory_left_in_groups(root.path(), "0::/job/step"), 1LL << 50) << "no limit is known";
  root.put("job/step/memory.max", "max\n");
  root.put("job/step/memory.current", mib(300));
  EXPECT_GT(memory_left_in_groups(root.path(), "0::/job/step"), 1LL << 50);
  root.put("job/memory.max", mib(1000));
  root.put("job/memory.current", mib(600));
  EXPECT_EQ(memory_left_in_groups(root.path(), "0::/job/step"), 400 * kMiB);
  root.put("memory.max", mib(500));
  root.put("memory.current", mib(600));
  EXPECT_EQ(memory_left_in_groups(root.path(), "0::/job/step"), 0);
}

TEST(MemoryLeft, CachedFilesAreTakenBack) {
  const ScratchFolder root;
  root.put("memory.max", mib(1000));
  root.put("memory.current", mib(990));
  root.put("memory.stat", "anon " + mib(400) + "file " + mib(500) + "inactive_anon " + mib(60) +
                              "active_file " + mib(200) + "inactive_file " + mib(250));
  EXPECT_EQ(memory_left_in_groups(root.path(), "0::/"), 460 * kMiB);
}

// Where a group of version 1 is, and also version 2 for other controllers.
constexpr const char* kGroups1 = "7:memory:/job/step\n4:cpu,cpuacct:/job\n0::/other\n";

TEST(MemoryLeft, IsSeenInVersion1) {
  const ScratchFolder root;
  root.put("memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.put("memory/memory.usage_in_bytes", mib(300));
  EXPECT_GT(memory_left_in_groups(root.path(), kGroups1), 1LL << 50) << "no limit is known";
  root.put("memory/job/memory.limit_in_bytes", mib(1000));
  root.put("memory/job/memory.usage_in_bytes", mib(900));
  root.put("memory/job/memory.stat", "active_file 1\ninactive_file 1\ntotal_active_file " +
                                         mib(100) + "total_inactive_file " + mib(50));
  EXPECT_EQ(memory_left_in_groups(root.path(), kGroups1), 250 * kMiB);
  root.put("memory/memory.limit_in_bytes", mib(400));
  EXPECT_EQ(memory_left_in_groups(root.path(), "7:memory:/docker/1\n"), 100 * kMiB)
      << "in a container the root is its own group";
}

TEST(CpusOfGroups, AreSeenInVersion1) {
  for (const std::string folder : {"cpu/", "cpu,cpuacct/"}) {
    const ScratchFolder root;
    root.put(folder + "cpu.cfs_quota_us", "-1\n");
    root.put(folder + "cpu.cfs_period_us", "100000\n");
    EXPECT_GT(cpus_of_groups(root.path(), kGroups1), 1e9) << "no quota is known";
    root.put(folder + "job/cpu.cfs_quota_us", "150000\n");
    root.put(folder + "job/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cpus_of_groups(root.path(), kGroups1), 1.5);
  }
}

TEST(CpusOfGroups, IsTheLeastQuotaOfAllGroupsAbove) {
  const ScratchFolder root;
  EXPECT_GT(cpus_of_groups(root.path(), "0::/job/step"), 1e9) << "no quota is known";
  root.put("cpu.max", "max 100000\n");
  root.put("job/step/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpus_of_groups(root.path(), "0::/job/step"), 4);
  root.put("job/cpu.max", "75000 50000\n");
  EXPECT_EQ(cpus_of_groups(root.path(), "0::/job/step"), 1.5);
  EXPECT_GT(cpus_of_groups(root.path(), "0::/other"), 1e9);
}

TEST(MemoryLeft, ThisProcessHasSome) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LT(available_memory_bytes(), 1LL << 50);
}

}  // namespace
}  // namespace kiln
