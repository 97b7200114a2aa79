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
  EXPECT_GT(memory_left_in_groups(root.path(), "/job/step"), 1LL << 50) << "no limit is known";
  root.put("job/step/memory.max", "max\n");
  root.put("job/step/memory.current", mib(300));
  EXPECT_GT(memory_left_in_groups(root.path(), "/job/step"), 1LL << 50);
  root.put("job/memory.max", mib(1000));
  root.put("job/memory.current", mib(600));
  EXPECT_EQ(memory_left_in_groups(root.path(), "/job/step"), 400 * kMiB);
  root.put("memory.max", mib(500));
  root.put("memory.current", mib(600));
  EXPECT_EQ(memory_left_in_groups(root.path(), "/job/step"), 0);
}

TEST(MemoryLeft, CachedFilesAreTakenBack) {
  const ScratchFolder root;
  root.put("memory.max", mib(1000));
  root.put("memory.current", mib(990));
  root.put("memory.stat", "anon " + mib(400) + "file " + mib(500) + "inactive_anon " + mib(60) +
                              "active_file " + mib(200) + "inactive_file " + mib(250));
  EXPECT_EQ(memory_left_in_groups(root.path(), "/"), 460 * kMiB);
}

TEST(CpusOfGroups, IsTheLeastQuotaOfAllGroupsAbove) {
  const ScratchFolder root;
  EXPECT_GT(cpus_of_groups(root.path(), "/job/step"), 1e9) << "no quota is known";
  root.put("cpu.max", "max 100000\n");
  root.put("job/step/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpus_of_groups(root.path(), "/job/step"), 4);
  root.put("job/cpu.max", "75000 50000\n");
  EXPECT_EQ(cpus_of_groups(root.path(), "/job/step"), 1.5);
  EXPECT_GT(cpus_of_groups(root.path(), "/other"), 1e9);
}

TEST(MemoryLeft, ThisProcessHasSome) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LT(available_memory_bytes(), 1LL << 50);
}

}  // namespace
}  // namespace kiln
