// What `kiln pack` leaves when it is killed, and targets that it refuses.
#include "data/write/shard_writer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/output_folder.h"
#include "base/system_calls.h"
#include "data/scratch_folder.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class ShardWriterTest : public testing::Test {
 protected:
  ShardWriterTest() {
    for (int i = 0; i < 3; ++i)
      for (const std::string name : {"cat", "dog"})
        input_.put(name + "/" + std::to_string(i) + ".jpg", std::string(400, 'x'));
  }
  void pack() const {
    const Dataset set = read_labeled_dataset(input_.path(), "Input dataset");
    ShardPlan plan{.name = "pets", .shard_bytes = 4096, .order = {}};
    plan.order.resize(set.samples.size());
    std::iota(plan.order.begin(), plan.order.end(), 0U);
    prepare_shard_output(output_, input_.path());
    write_shards(set, plan, output_);
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

}  // namespace
}  // namespace kiln
