#include "data/write/shard_writer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/make_image.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

PackedShards pack(const ScratchFolder& folder, int short_side) {
  const Dataset set = read_labeled_dataset(folder / "images", "Input dataset");
  ShardPlan plan{.name = "train", .shard_bytes = 1 << 20, .short_side = short_side, .order = {}};
  plan.order.resize(set.samples.size());
  std::iota(plan.order.begin(), plan.order.end(), 0U);
  const std::filesystem::path output = folder / ("shards-" + std::to_string(short_side));
  prepare_shard_output(output, set.root);
  return write_shards(set, plan, output);
}

TEST(WriteShards, NameTheFilesThatAreNoImages) {
  const ScratchFolder folder;
  const std::string png = test::encode_png(test::gradient(40, 50));
  folder.put("images/cat/0.png", png);
  folder.put("images/cat/1.jpg", "a text that somebody renamed");
  folder.put("images/dog/2.png", "");
  folder.put("images/dog/3.png", png);
  const std::vector<std::string> bad = {"cat/1.jpg", "dog/2.png"};
  for (const int short_side : {0, 20}) {
    const PackedShards packed = pack(folder, short_side);
    EXPECT_EQ(packed.undecodable, bad) << short_side;
    EXPECT_EQ(packed.num_reduced, short_side == 0 ? 0U : 2U);
  }
}

}  // namespace
}  // namespace kiln
