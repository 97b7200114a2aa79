#include "parallel/device/device.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace kiln {
namespace {

RankDevice gpu(const std::string& host, const std::string& chosen,
               std::vector<std::string> visible) {
  return {.host = host, .is_cuda = true, .chosen = chosen, .visible = std::move(visible)};
}

std::vector<std::string> sentences(const std::vector<RankDevice>& ranks) {
  std::vector<std::string> list;
  const Problems problems = find_gpu_problems(ranks);
  for (const Error& error : problems.errors()) {
    EXPECT_EQ(error.code(), ErrorCode::kUserError);
    EXPECT_EQ(exit_code(error.code()), 1);
    list.push_back(error.message());
  }
  return list;
}

TEST(GpuAssignment, EachRankMayUseItsOwnOfSharedGpus) {
  const std::vector<std::string> all = {"GPU-a", "GPU-b"};
  EXPECT_TRUE(sentences({gpu("x", "GPU-a", all), gpu("x", "GPU-b", all)}).empty());
}

TEST(GpuAssignment, EachRankMayUseTheOnlyGpuItSees) {
  EXPECT_TRUE(sentences({gpu("x", "GPU-a", {"GPU-a"}), gpu("x", "GPU-b", {"GPU-b"}),
                         gpu("y", "GPU-c", {"GPU-c"})})
                  .empty());
}

TEST(GpuAssignment, MoreRanksThanGpusOnAHostIsOneSentence) {
  const std::vector<std::string> all = {"GPU-a", "GPU-b"};
  const std::vector<std::string> found =
      sentences({gpu("y", "GPU-c", {"GPU-c"}), gpu("X", "GPU-a", all), gpu("X", "GPU-b", all),
                 gpu("X", "GPU-a", all), gpu("X", "GPU-b", all)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].find("Process count per node (4) is greater than the processing units (2) on "
                          "host X"),
            0U)
      << found[0];
}

// However many slices there are, every process sees the same one.
TEST(GpuAssignment, RanksOnMigSlicesAreToldHowToTakeOneEach) {
  const RankDevice slice = gpu("x", "MIG-a", {"MIG-a"});
  const std::vector<std::string> found = sentences({slice, slice});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("CUDA_VISIBLE_DEVICES=MIG-"), std::string::npos) << found[0];
  EXPECT_EQ(found[0].find("one rank per GPU"), std::string::npos) << found[0];
  EXPECT_TRUE(sentences({slice, gpu("x", "MIG-b", {"MIG-b"})}).empty());
}

TEST(GpuAssignment, RanksThatShareAGpuAreCounted) {
  const Device two{.is_cuda = true, .visible_uuids = {"GPU-a", "GPU-b"}};
  EXPECT_EQ(ranks_on_gpu(two, 3), 1) << "sharing is for tests alone";
  ::setenv("KILN_SHARE_GPU", "1", 1);
  EXPECT_EQ(ranks_on_gpu(two, 2), 1);
  EXPECT_EQ(ranks_on_gpu(two, 3), 2);
  EXPECT_EQ(ranks_on_gpu({.is_cuda = true}, 3), 3) << "their UUIDs are unknown";
  ::unsetenv("KILN_SHARE_GPU");
}

TEST(GpuAssignment, WithoutUuidsTheCountIsChecked) {
  const RankDevice unknown = gpu("x", "", {"", ""});
  EXPECT_TRUE(sentences({unknown, unknown}).empty());
  EXPECT_EQ(sentences({unknown, unknown, unknown}).size(), 1U);
}

TEST(GpuAssignment, TwoRanksOnOneGpuAreNamed) {
  const std::vector<std::string> found =
      sentences({gpu("x", "GPU-a", {"GPU-a"}), gpu("x", "GPU-b", {"GPU-b"}),
                 gpu("x", "GPU-a", {"GPU-a", "GPU-c"})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("Ranks 0, 2 on host x share the same GPU (GPU-a)"), std::string::npos)
      << found[0];
}

TEST(GpuAssignment, OneGpuUnderTwoHostNamesIsDetected) {
  EXPECT_EQ(sentences({gpu("box1", "GPU-a", {"GPU-a"}), gpu("box2", "GPU-a", {"GPU-a"})}).size(),
            1U);
}

TEST(GpuAssignment, AMixOfCpusAndGpusIsRefused) {
  const std::vector<std::string> found =
      sentences({gpu("x", "GPU-a", {"GPU-a"}), RankDevice{.host = "y"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("rank 1 on host y has no GPU"), std::string::npos) << found[0];
}

TEST(GpuAssignment, TestsMayShareAGpuButNotMixDevices) {
  const RankDevice only = gpu("x", "GPU-a", {"GPU-a"});
  EXPECT_FALSE(find_gpu_problems({only, only}).empty());
  EXPECT_TRUE(find_gpu_problems({only, only}, /*may_share=*/true).empty());
  EXPECT_FALSE(find_gpu_problems({only, RankDevice{.host = "y"}}, /*may_share=*/true).empty());
}

TEST(GpuAssignment, CpusMayBeShared) {
  const RankDevice cpu{.host = "x"};
  EXPECT_TRUE(sentences({cpu, cpu, cpu}).empty());
  EXPECT_TRUE(find_idle_gpus({cpu, cpu}).empty());
}

TEST(GpuAssignment, IdleGpusAreCounted) {
  const std::vector<std::string> all = {"GPU-a", "GPU-b", "GPU-c"};
  EXPECT_EQ(find_idle_gpus({gpu("x", "GPU-a", all)}),
            std::vector<std::string>{"2 of the 3 GPUs of host x are idle"});
  EXPECT_TRUE(find_idle_gpus({gpu("x", "GPU-a", {"GPU-a"})}).empty());
}

}  // namespace
}  // namespace kiln
