#include "store/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/files.h"
#include "base/system_calls.h"
#include "checkpoint_folders.h"
#include "peak_memory.h"
#include "sample_states.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

void expect_same(const StateDict& left, const StateDict& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_EQ(left[i].dtype, right[i].dtype);
    EXPECT_EQ(left[i].shape, right[i].shape);
    EXPECT_EQ(left[i].bytes, right[i].bytes) << left[i].name;
  }
}

TEST_F(CheckpointTest, RoundTrips) {
  EXPECT_EQ(write("{\"a\": 1}", 3), folder_ / "checkpoint-000001");
  EXPECT_EQ(names(), (Names{"best-000001.safetensors", "checkpoint-000001"}));
  EXPECT_EQ(names("checkpoint-000001"),
            (Names{"checkpoint.json", "metrics.jsonl", "state.json", "state.safetensors"}));
  const auto found = newest();
  ASSERT_TRUE(found);
  EXPECT_TRUE(skipped_.empty());
  EXPECT_EQ(found->path, folder_ / "checkpoint-000001");
  EXPECT_EQ(found->state_json, "{\"a\": 1}");
  EXPECT_EQ(found->record, "{\"a\": 1}\n");
  expect_same(found->tensors, sample_state());
  EXPECT_EQ(read_file(found->path / "state.safetensors"), write_safetensors(sample_state()));
  ASSERT_EQ(found->best.size(), 1U);
  EXPECT_EQ(found->best[0].bytes, "\3");
  EXPECT_EQ(found->best_epoch, 3);
  std::uint64_t bytes = fs::file_size(folder_ / "best-000001.safetensors");
  for (const std::string_view name : kCheckpointFiles) bytes += fs::file_size(found->path / name);
  EXPECT_EQ(found->bytes, bytes);
}

TEST_F(CheckpointTest, AllMayBeEmpty) {
  CheckpointFolder(folder_, 2).write({});
  const auto found = newest();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->state_json.empty() && found->tensors.empty() && found->best.empty());
}

TEST_F(CheckpointTest, NumbersGrowAndTheNewestStay) {
  EXPECT_EQ(state(), "none");
  for (const char* state : {"one", "two", "three"}) write(state);
  EXPECT_EQ(state(), "three");
  EXPECT_EQ(names(), (Names{"checkpoint-000002", "checkpoint-000003"}));
  fs::create_directory(folder_ / "checkpoint-1000007");
  EXPECT_EQ(state(), "three") << "one without checkpoint.json is not whole";
  ASSERT_EQ(skipped_.size(), 1U);
  EXPECT_TRUE(skipped_[0].starts_with("checkpoint-1000007")) << skipped_[0];
  EXPECT_EQ(write("four"), folder_ / "checkpoint-1000008");
  EXPECT_EQ(names(), (Names{"checkpoint-000003", "checkpoint-1000008"}));
  write("five", 0, 1);
  EXPECT_EQ(names(), (Names{"checkpoint-1000009"}));
}

TEST_F(CheckpointTest, WritingTakesNoCopyOfTheTensors) {
  const std::string bytes(64 << 20, 'x');
  const TensorView tensor{"w", DType::kUInt8, {64 << 20}, bytes};
  CheckpointFolder folder(folder_, 2);
  EXPECT_LT(test::peak_mib_of([&] { folder.write({"{}", "", {tensor}, {tensor}, 1}); }), 32U);
}

TEST_F(CheckpointTest, TheBestIsWrittenOnceAnEpoch) {
  CheckpointFolder folder(folder_, 2);
  write(folder, "one");
  write(folder, "two", 1);
  write(folder, "three", 1);
  EXPECT_EQ(names(), (Names{"best-000002.safetensors", "checkpoint-000002", "checkpoint-000003"}));
  write(folder, "four", 4);
  EXPECT_TRUE(names().contains("best-000002.safetensors")) << "checkpoint-000003 names it";
  EXPECT_TRUE(names().contains("best-000004.safetensors"));
  write(folder, "five", 4);
  EXPECT_EQ(names(), (Names{"best-000004.safetensors", "checkpoint-000004", "checkpoint-000005"}));
  EXPECT_EQ(folder.newest(skipped_)->best[0].bytes, "\4");
}

TEST_F(CheckpointTest, TheBestIsKeptByAResumedRun) {
  write("one", 1);
  CheckpointFolder folder(folder_, 2);
  ASSERT_TRUE(folder.newest(skipped_));
  write(folder, "two", 1);
  EXPECT_FALSE(names().contains("best-000002.safetensors"));
  fs::remove(folder_ / "best-000001.safetensors");
  write(folder, "three", 1);
  EXPECT_TRUE(names().contains("best-000003.safetensors")) << "it was lost";
}

TEST_F(CheckpointTest, BeginningAnewKeepsTheOldOnesUntilTheFirstIsWhole) {
  write("one", 1);
  write("two", 2);
  {
    CheckpointFolder folder(folder_, 2);
    folder.restart();
  }
  EXPECT_EQ(state(), "two");
  CheckpointFolder folder(folder_, 2);
  folder.restart();
  test::calls_before_failure = 5;
  test::failure = EIO;
  EXPECT_THROW(write(folder, "anew", 1), Error);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "two");
  folder.restart();
  write(folder, "anew", 2);
  EXPECT_EQ(names(), (Names{"best-000003.safetensors", "checkpoint-000003"}));
  EXPECT_EQ(folder.newest(skipped_)->best[0].bytes, "\2");
}

TEST_F(CheckpointTest, OneRunAtATime) {
  std::optional<CheckpointFolder> first(std::in_place, folder_, 2);
  write(*first, "one");
  expect_refused(folder_, "another run");
  std::vector<std::string> skipped;
  EXPECT_EQ(read_checkpoint(folder_, skipped).state_json, "one") << "readers need no lock";
  first.reset();
  EXPECT_EQ(state(), "one");
}

TEST_F(CheckpointTest, FoldersOfOthersAreRefused) {
  put(folder_ / "a file", "x");
  expect_refused(folder_, "'a file'");
  expect_refused(folder_ / "a file", "a file");
  expect_refused(folder_ / "a file" / "below", "a file");
  fs::remove(folder_ / "a file");
  for (const char* name : {"checkpoint-7", "checkpoint-0000007", "checkpoint-000007x",
                           "best-000001", "best-000001.safetensors"}) {
    fs::create_directory(folder_ / name);
    expect_refused(folder_, name);
    fs::remove(folder_ / name);
  }
  put(folder_ / "checkpoint-000001", "a file");
  expect_refused(folder_, "checkpoint-000001");
  fs::remove(folder_ / "checkpoint-000001");
  put(folder_ / "_meta.yaml", "type: ModelDirectory\n");
  expect_refused(folder_, "model directory");
  fs::remove(folder_ / "_meta.yaml");
  put(folder_ / ".hidden", "x");
  fs::create_directory(folder_ / "lost+found");
  CheckpointFolder(folder_, 2);
  EXPECT_EQ(names(), (Names{".hidden", "lost+found"})) << "the probe is gone";
}

TEST_F(CheckpointTest, MissingFoldersAreMade) {
  CheckpointFolder folder(folder_ / "a" / "b", 2);
  EXPECT_EQ(write(folder, "one"), folder_ / "a" / "b" / "checkpoint-000001");
}

TEST_F(CheckpointTest, WithoutPermissionItIsRefused) {
  const test::BoundByPermissions bound;
  ::chmod(folder_.c_str(), 0555);
  expect_refused(folder_, "Permission denied");
  expect_refused(folder_ / "below", "Permission denied");
  ::chmod(folder_.c_str(), 0333);
  expect_refused(folder_, "cannot be listed");
  ::chmod(folder_.c_str(), 0755);
}

TEST_F(CheckpointTest, ReadersTakeTheFolderOrOneOfIt) {
  std::vector<std::string> skipped;
  EXPECT_FALSE(is_checkpoint(folder_));
  EXPECT_FALSE(is_checkpoint(folder_ / "none"));
  EXPECT_THROW(read_checkpoint(folder_, skipped), Error);
  const fs::path first = write("one", 1), second = write("two", 2);
  for (const fs::path& path : {folder_, first, second, second / ""})
    EXPECT_TRUE(is_checkpoint(path));
  EXPECT_FALSE(is_checkpoint(first / "state.json"));
  EXPECT_EQ(read_checkpoint(folder_, skipped).state_json, "two");
  EXPECT_EQ(read_checkpoint(first, skipped).best_epoch, 1);
  EXPECT_EQ(read_checkpoint(second / "", skipped).best_epoch, 2);
  fs::create_directory_symlink(second, folder_ / ".latest");
  EXPECT_EQ(read_checkpoint(folder_ / ".latest", skipped).best_epoch, 2);
  EXPECT_TRUE(skipped.empty());
  fs::remove(second / "checkpoint.json");
  EXPECT_TRUE(is_checkpoint(second));
  EXPECT_EQ(read_checkpoint(folder_, skipped).state_json, "one");
  EXPECT_EQ(skipped.size(), 1U);
  try {
    read_checkpoint(second, skipped);
    ADD_FAILURE() << "it is not whole";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModelDirectory);
    EXPECT_NE(error.message().find("checkpoint.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
