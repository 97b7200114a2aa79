// The forms of shards: what comes back from each of them.
#include "tools/pack/pack.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "data/dataset/image_bytes.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class ShardForms : public testing::TestWithParam<ShardFormat> {
 protected:
  ShardForms() {
    for (const std::string name : {"cat", "dog"})
      for (int i = 0; i < 5; ++i)
        input_.put(name + "/" + std::to_string(i) + ".png",
                   test::encode_png(test::gradient(8 + i, 9)) + std::string(1000, 'x'));
  }
  Dataset pack(std::uint64_t shard_bytes, bool even = false) {
    Dataset set = read_labeled_dataset(input_.path(), "Input dataset");
    ShardPlan plan{.name = "pets",
                   .shard_bytes = shard_bytes,
                   .even_shards = even,
                   .order = {},
                   .format = GetParam()};
    plan.order.resize(set.samples.size());
    std::iota(plan.order.begin(), plan.order.end(), 0U);
    packed_ = write_shards(set, plan, OutputFolder(output_));
    return read_labeled_dataset(output_, "Packed");
  }

  const ScratchFolder input_, place_;
  const fs::path output_ = place_ / "shards";
  PackedShards packed_;
};

TEST_P(ShardForms, ImagesComeBackInOrderWithTheirClasses) {
  const Dataset packed = pack(4096);
  Dataset set = read_labeled_dataset(input_.path(), "Input dataset");
  EXPECT_EQ(packed.classes, set.classes);
  ASSERT_EQ(packed.samples.size(), set.samples.size());
  std::string before, after;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    read_image_bytes(set, i, before);
    read_image_bytes(packed, i, after);
    EXPECT_EQ(after, before) << i;
    EXPECT_EQ(packed.samples.label(i), set.samples.label(i)) << i;
    EXPECT_TRUE(packed.samples.file_name(i).ends_with(".png"));
  }
  EXPECT_TRUE(packed.notes.empty());
}

TEST_P(ShardForms, NoShardIsLargerThanAsked) {
  const Dataset packed = pack(4096);
  EXPECT_EQ(packed.archives.size(), packed_.num_shards);
  EXPECT_GT(packed_.num_shards, 2U);
  for (const ImageArchive& shard : packed.archives) EXPECT_LE(shard.file.size(), 4096U + 1024U);
}

TEST_P(ShardForms, ARecordIsAsLargeAsTheFormAllows) {
  EXPECT_GE(max_image_bytes(GetParam()), std::uint64_t{500} << 20);
}

INSTANTIATE_TEST_SUITE_P(All, ShardForms,
                         testing::Values(ShardFormat::kTar, ShardFormat::kTfRecord,
                                         ShardFormat::kRecordIo));

}  // namespace
}  // namespace kiln
