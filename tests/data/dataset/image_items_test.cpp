// The sample table: returns what was added, compactly, also after conversion to bytes.
#include "data/dataset/dataset.h"

#include <gtest/gtest.h>

#include "base/error.h"

#include "base/mutate.h"

namespace kiln {
namespace {

SampleTable three_items() {
  SampleTable samples;
  samples.push_back({.file_name = "cat/a.jpg", .label = 0, .id = 0, .size = {}});
  samples.push_back(
      {.file_name = "b.jpg", .label = -1, .id = 40, .size = {{.height = 7, .width = 5}}});
  samples.push_back({.file_name = "dog/c.jpg", .label = 1, .id = 2, .size = {}});
  return samples;
}

void expect_three_items(const SampleTable& samples) {
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].file_name, "cat/a.jpg");
  EXPECT_EQ(samples[0].id, 0);
  EXPECT_EQ(samples[0].size, std::nullopt);
  EXPECT_EQ(samples[1].file_name, "b.jpg");
  EXPECT_EQ(samples[1].label, -1);
  EXPECT_EQ(samples[1].id, 40);
  EXPECT_EQ(samples[1].size, (ImageSize{.height = 7, .width = 5}));
  EXPECT_EQ(samples[2].file_name, "dog/c.jpg");
  EXPECT_EQ(samples[2].label, 1);
  EXPECT_EQ(samples[2].id, 2);
}

TEST(SampleTable, ReturnsSamplesAsAdded) {
  expect_three_items(three_items());
}

TEST(SampleTable, RestoresFromBytesAndLeavesTheRest) {
  std::string bytes;
  three_items().append_to(bytes);
  bytes += "rest";
  std::string_view left = bytes;
  expect_three_items(SampleTable::take_from(left));
  EXPECT_EQ(left, "rest");
}

TEST(SampleTable, RemovingUnlabeledSamplesKeepsIds) {
  SampleTable samples = three_items();
  samples.remove_unlabeled();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].file_name, "dog/c.jpg");
  EXPECT_EQ(samples[1].id, 2);
}

// Names like ImageNet's "n01440764/n01440764_10026.JPEG".
TEST(SampleTable, AnArchiveMemberTakesAtMost120Bytes) {
  SampleTable samples;
  constexpr int kCount = 200'000;
  const ArchiveMember member{.offset = 1, .stored_size = 2, .size = 3};
  for (int i = 0; i < kCount; ++i) {
    samples.push_back(
        {.file_name = "n01440764/n01440764_10026.JPEG", .label = 1, .id = 7, .size = {}}, &member);
  }
  samples.shrink_to_fit();
  EXPECT_LE(samples.memory_bytes(), std::size_t{120} * kCount);
}

TEST(SampleTable, DamagedBytesAreRefusedOrReadWithinBounds) {
  std::string bytes;
  three_items().append_to(bytes);
  const auto read = [](const std::string& damaged) {
    std::string_view left = damaged;
    for (const Sample& item : SampleTable::take_from(left)) {
      ASSERT_LE(item.file_name.size(), damaged.size());
    }
  };
  EXPECT_GT(test::count_refused<InternalError>(bytes, read), 0U);
}

}  // namespace
}  // namespace kiln
