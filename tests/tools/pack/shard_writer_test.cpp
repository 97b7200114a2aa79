// What `kiln pack` leaves when it is killed, and targets that it refuses.
#include "tools/pack/pack.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/output_folder.h"
#include "base/system_calls.h"
#include "data/dataset/image_bytes.h"
#include "data/make_image.h"
#include "data/scratch_folder.h"
#include "tools/convert/convert.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class ShardWriterTest : public testing::Test {
 protected:
  ShardWriterTest() {
    for (int i = 0; i < 3; ++i)
      for (const std::string name : {"cat", "dog"})
        input_.put(name + "/" + std::to_string(i) + ".jpg", "\xff\xd8\xff" + std::string(397, 'x'));
  }
  void pack() const {
    Dataset set = read_labeled_dataset(input_.path(), "Input dataset");
    ShardPlan plan{.name = "pets", .shard_bytes = 4096, .order = {}};
    plan.order.resize(set.samples.size());
    std::iota(plan.order.begin(), plan.order.end(), 0U);
    write_shards(set, plan, take_shard_output(output_, input_.path()));
  }
  void expect_whole() const {
    const Dataset packed = read_labeled_dataset(output_, "Packed");
    EXPECT_EQ(packed.samples.size(), 6U);
    EXPECT_EQ(packed.classes, (std::vector<std::string>{"cat", "dog"}));
  }

  const ScratchFolder input_, place_;
  const fs::path output_ = place_ / "shards";
};

TEST_F(ShardWriterTest, AKillLeavesNothingThatIsTakenForWhole) {
  int num_refused = 0, num_whole = 0;
  for (int calls = 0;; ++calls) {
    fs::remove_all(output_);
    if (!test::is_killed_after(calls, [this] { pack(); })) break;
    try {
      expect_whole();
      ++num_whole;
      continue;  // and the next run would refuse it, as it does after a run that ended
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidDataset) << error.message();
      num_refused += error.message().find("incomplete") != std::string::npos ? 1 : 0;
    }
    ASSERT_NO_THROW(pack()) << calls;
    expect_whole();
  }
  EXPECT_GT(num_refused, 3);
  EXPECT_GT(num_whole, 0);
}

TEST_F(ShardWriterTest, ShardsOfAnotherRunAreRefused) {
  pack();
  EXPECT_EQ(error_of([this] { pack(); }).code(), ErrorCode::kFailedToWriteOutputs);
  expect_whole();
  fs::remove_all(output_);
  const OutputFolder other(output_);
  EXPECT_EQ(error_of([this] { pack(); }).code(), ErrorCode::kFailedToWriteOutputs);
}

TEST(WriteShards, NameTheFilesThatAreNoImages) {
  const ScratchFolder folder;
  const std::string png = test::encode_png(test::gradient(40, 50));
  folder.put("images/cat/0.png", png);
  folder.put("images/cat/1.jpg", "a text that somebody renamed");
  folder.put("images/dog/2.png", "");
  folder.put("images/dog/3.png", png);
  folder.put("images/dog/4.png", png.substr(0, 20));
  const std::vector<std::string> bad = {"dog/4.png"};
  for (const int short_side : {0, 20}) {
    Dataset set = read_labeled_dataset(folder / "images", "Input dataset");
    leave_out_other_contents(set);
    EXPECT_EQ(set.notes,
              std::vector<std::string>(
                  {"2 files are no images and are not copied: 'cat/1.jpg' (not an "
                   "image: it is text), 'dog/2.png' (not an image: the file is empty)"}));
    ShardPlan plan{.name = "train", .shard_bytes = 1 << 20, .short_side = short_side, .order = {}};
    plan.order.resize(set.samples.size());
    std::iota(plan.order.begin(), plan.order.end(), 0U);
    const fs::path output = folder / ("shards-" + std::to_string(short_side));
    const PackedShards packed = write_shards(set, plan, take_shard_output(output, set.root));
    EXPECT_EQ(packed.undecodable, bad) << short_side;
    EXPECT_EQ(packed.num_reduced, short_side == 0 ? 0U : 2U);
  }
}

// The gray rows of a reduced copy would be taken for the photo's.
TEST(WriteShards, DamagedImagesAreKeptAsTheyAre) {
  const ScratchFolder folder;
  const std::string whole = test::encode_jpeg(test::noise(64, 64));
  const std::string cut = whole.substr(0, whole.size() * 80 / 100);
  folder.put("images/cat/0.jpg", whole);
  folder.put("images/dog/1.jpg", cut);
  Dataset set = read_labeled_dataset(folder / "images", "Input dataset");
  const ShardPlan plan{.name = "train", .shard_bytes = 1 << 20, .short_side = 20, .order = {0, 1}};
  const fs::path output = folder / "shards";
  const PackedShards packed = write_shards(set, plan, take_shard_output(output, set.root));
  EXPECT_EQ(packed.damaged, std::vector<std::string>{"dog/1.jpg"});
  EXPECT_EQ(packed.num_reduced, 1U);
  const Dataset made = read_labeled_dataset(output, "Packed");
  std::string bytes;
  read_image_bytes(made, 1, bytes);
  EXPECT_EQ(bytes, cut);
}

}  // namespace
}  // namespace kiln
