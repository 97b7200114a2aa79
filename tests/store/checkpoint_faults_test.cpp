// Checkpoints that are damaged, hostile, interrupted, or meet failing system calls.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/mutate.h"
#include "base/system_calls.h"
#include "checkpoint_folders.h"
#include "peak_memory.h"
#include "sample_states.h"
#include "store/checkpoint.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class CheckpointFaultTest : public CheckpointTest {};

TEST_F(CheckpointFaultTest, ACutAnywhereGivesTheOneBefore) {
  write("the first one", 1);
  write("the second one", 2);
  const fs::path last = folder_ / "checkpoint-000002";
  std::vector<fs::path> files{folder_ / "best-000002.safetensors"};
  for (const auto& entry : fs::directory_iterator(last)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 5U);
  for (const fs::path& file : files) {
    const std::string whole = read_file(file);
    for (std::size_t part = 0; part < 20; ++part) {
      put(file, whole.substr(0, whole.size() * part / 20));
      EXPECT_EQ(state(), "the first one") << file << part;
      ASSERT_EQ(skipped_.size(), 1U);
      EXPECT_TRUE(skipped_[0].starts_with("checkpoint-000002")) << skipped_[0];
    }
    fs::remove(file);
    EXPECT_EQ(state(), "the first one") << file;
    put(file, whole + "x");
    // JSON may end with a space, and with nothing else.
    EXPECT_EQ(state(), "the first one") << file;
    put(file, whole);
    EXPECT_EQ(state(), "the second one");
  }
}

TEST_F(CheckpointFaultTest, DamageInAnyFileShows) {
  write("the first one", 1);
  write("the second one", 2);
  const fs::path last = folder_ / "checkpoint-000002";
  for (const fs::path& file : {folder_ / "best-000002.safetensors", last / "state.json",
                               last / "metrics.jsonl", last / "state.safetensors"}) {
    const std::string whole = read_file(file);
    std::string other = whole;
    std::swap(other[other.size() / 2], other[other.size() / 2 + 1]);
    ASSERT_NE(other, whole);
    put(file, other);
    EXPECT_EQ(state(), "the first one") << file;
    put(file, whole);
  }
  EXPECT_EQ(state(), "the second one");
}

TEST_F(CheckpointFaultTest, SwappedTensorsShow) {
  write("the first one");
  const fs::path last = write("the second one");
  StateDict swapped = sample_state();
  std::swap(swapped[0].name, swapped[2].name);
  const std::string other = write_safetensors(swapped);
  ASSERT_EQ(other.size(), fs::file_size(last / "state.safetensors"));
  put(last / "state.safetensors", other);
  EXPECT_EQ(state(), "the first one");
}

// Names after a run has gone on from the first of two checkpoints, beside the second one.
const Names kBesideTheSecond{"best-000002.safetensors", "best-000004.safetensors",
                             "best-000005.safetensors", "checkpoint-000002",
                             "checkpoint-000004",       "checkpoint-000005"};

TEST_F(CheckpointFaultTest, ANewerFormatIsSkippedAndStays) {
  write("the first one", 1);
  const fs::path last = write("the second one", 2);
  replace_in(last / "checkpoint.json", "\"version\": 1", "\"version\": 12");
  CheckpointFolder folder(folder_, 2);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "the first one");
  ASSERT_EQ(skipped_.size(), 1U);
  EXPECT_NE(skipped_[0].find("12"), std::string::npos);
  EXPECT_NE(skipped_[0].find("newer version"), std::string::npos);
  for (const int epoch : {3, 4, 5}) write(folder, "a later one", epoch);
  Names wanted = kBesideTheSecond;
  wanted.insert("best-000001.safetensors");  // which it may name, too
  EXPECT_EQ(names(), wanted);
}

TEST_F(CheckpointFaultTest, AStateOfAnotherVersionStays) {
  write("one", 1);
  write("two", 2);
  CheckpointFolder folder(folder_, 2);
  const auto refuse_two = [](const std::string& state) {
    if (state == "two") throw Error(ErrorCode::kInvalidDataset, "its state.json is no state");
  };
  EXPECT_EQ(folder.newest(skipped_, refuse_two)->state_json, "one");
  for (const int epoch : {3, 4, 5}) write(folder, "later", epoch);
  EXPECT_EQ(names(), kBesideTheSecond);
}

TEST_F(CheckpointFaultTest, WhatCannotBeReadIsSkippedAndStays) {
  for (const char* name : {"checkpoint-000002/checkpoint.json", "checkpoint-000002/state.json",
                           "checkpoint-000002/state.safetensors", "best-000002.safetensors"}) {
    fs::remove_all(folder_);
    CheckpointFolder folder(folder_, 2);
    write(folder, "one", 1);
    write(folder, "two", 2);
    const fs::path file = folder_ / name;
    const std::string whole = read_file(file);
    fs::remove(file);
    fs::create_symlink(file, file);  // ELOOP, also for root; as EIO, ESTALE and EACCES
    EXPECT_EQ(folder.newest(skipped_)->state_json, "one") << name;
    write(folder, "three", 3);
    fs::remove(file);
    put(file, whole);
    for (const int epoch : {4, 5}) write(folder, "later", epoch);
    EXPECT_EQ(names(), kBesideTheSecond) << name;
    EXPECT_EQ(read_checkpoint(folder_ / "checkpoint-000002", skipped_).state_json, "two");
  }
}

// As somebody does who has read that it is not used.
TEST_F(CheckpointFaultTest, ADamagedOneMayBeRemovedByHand) {
  write("one");
  const fs::path last = write("two");
  replace_in(last / "state.json", "two", "owt");
  CheckpointFolder folder(folder_, 2);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "one");
  fs::remove_all(last);
  EXPECT_EQ(write(folder, "three"), last);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "three");
}

TEST_F(CheckpointFaultTest, CompleteOnesThatCannotBeUsedAreToldFromPartsOfOne) {
  const auto holds_unused = [&] {
    CheckpointFolder folder(folder_, 2);
    EXPECT_FALSE(folder.newest(skipped_));
    return folder.holds_unused();
  };
  EXPECT_FALSE(holds_unused());
  {
    CheckpointFolder folder(folder_, 2);
    write(folder, "one", 1);
    write(folder, "two", 1);
  }
  const fs::path first = folder_ / "checkpoint-000001", second = folder_ / "checkpoint-000002";
  const fs::path best = folder_ / "best-000001.safetensors";
  const std::string weights = read_file(best), manifest = read_file(second / "checkpoint.json");
  put(best, std::string(weights.size(), 'x'));
  EXPECT_TRUE(holds_unused());
  EXPECT_EQ(skipped_.size(), 2U) << "both name it";
  fs::remove(best);
  EXPECT_TRUE(holds_unused());
  put(best, weights);
  fs::remove(first / "checkpoint.json");
  replace_in(second / "state.json", "two", "owt");
  EXPECT_TRUE(holds_unused());
  replace_in(second / "checkpoint.json", "\"version\": 1", "\"version\": 2");
  EXPECT_TRUE(holds_unused());
  put(second / "checkpoint.json", manifest.substr(0, manifest.size() / 2));
  EXPECT_FALSE(holds_unused());
  put(second / "checkpoint.json", manifest);
  put(second / "state.json", "");
  EXPECT_FALSE(holds_unused());
}

TEST_F(CheckpointFaultTest, HostileManifestsAreRefused) {
  const std::string file =
      R"({"name": "state.json", "bytes": 1, "content_hash": "0123456789abcdef"})";
  const auto named = [&](const std::string& name) {
    return R"({"name": ")" + name + R"(", "bytes": 1, "content_hash": "0123456789abcdef"})";
  };
  const auto manifest = [&](const std::string& first, const std::string& more = "") {
    return R"({"format": "kiln checkpoint", "version": 1, "files": [)" + first + "," +
           named("metrics.jsonl") + "," + named("state.safetensors") + "]" + more + "}";
  };
  EXPECT_EQ(parse_manifest(manifest(file)).files[0].hash, 0x0123456789abcdefU);
  const std::string best = R"(, "best": {"epoch": 3, "bytes": 1, "content_hash": "00000000000000ff",
                              "name": )";
  EXPECT_EQ(parse_manifest(manifest(file, best + "\"best-000001.safetensors\"}")).best_epoch, 3);
  const std::vector<std::string> bad{
      "",
      "null",
      "[]",
      "{}",
      std::string(100'000, '['),
      R"({"format": "kiln checkpoint"})",
      R"({"format": "kiln checkpoint", "version": 1})",
      R"({"format": "kiln checkpoint", "version": 1, "files": {}})",
      R"({"format": "kiln checkpoint", "version": 1, "files": [1, 2, 3]})",
      R"({"format": "kiln checkpoint", "version": 1, "files": []})",
      R"({"format": 1, "version": 1})",
      R"({"format": "kiln checkpoint", "version": -1})",
      R"({"format": "kiln checkpoint", "version": 1.0})",
      R"({"format": "kiln checkpoint", "version": "1"})",
      manifest(file, R"(, "format": "kiln checkpoint")"),
      manifest(named("../state.json")),
      manifest(named("/etc/passwd")),
      manifest(file + "," + file),
      manifest(R"({"name": "state.json", "bytes": 1})"),
      manifest(R"({"name": "state.json", "bytes": -1, "content_hash": "0123456789abcdef"})"),
      manifest(R"({"name": "state.json", "bytes": 1e99, "content_hash": "0123456789abcdef"})"),
      manifest(R"({"name": "state.json", "bytes": 18446744073709551615,
                   "content_hash": "0123456789abcdef"})"),
      manifest(R"({"name": "state.json", "bytes": 1, "content_hash": "123"})"),
      manifest(R"({"name": "state.json", "bytes": 1, "content_hash": "0123456789ABCDEF"})"),
      manifest(R"({"name": "state.json", "bytes": 1, "content_hash": 5})"),
      manifest(file, best + "\"../best-000001.safetensors\"}"),
      manifest(file, best + "\"checkpoint-000001\"}"),
      manifest(file, best + "\"best-1.safetensors\"}"),
      manifest(file, best + "3}"),
      manifest(file, R"(, "best": null)"),
      manifest(file, R"(, "best": {"epoch": 99999999999})")};
  for (const std::string& text : bad) EXPECT_THROW(parse_manifest(text), FormatFault) << text;
}

TEST_F(CheckpointFaultTest, DamagedManifestsNeverCrash) {
  const fs::path path = write("state", 1);
  const auto parse = [](const std::string& text) { parse_manifest(text); };
  EXPECT_GT(test::count_refused<FormatFault>(read_file(path / "checkpoint.json"), parse),
            test::num_mutations() / 10);
}

TEST_F(CheckpointFaultTest, LargeManifestsAndFilesAreNotRead) {
  const fs::path path = write("state");
  fs::resize_file(path / "state.safetensors", std::uint64_t{3} << 30);
  EXPECT_LT(test::peak_mib_of([&] { newest(); }), 32U);
  fs::resize_file(path / "checkpoint.json", std::uint64_t{3} << 30);
  EXPECT_LT(test::peak_mib_of([&] { newest(); }), 32U);
  EXPECT_EQ(state(), "none");
}

TEST_F(CheckpointFaultTest, TheLastWholeOneIsNeverRemoved) {
  write("one");
  write("two");
  const fs::path last = write("three");
  replace_in(last / "state.json", "three", "eerht");
  CheckpointFolder folder(folder_, 1);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "two");
  test::calls_before_failure = 3;
  test::failure = ENOSPC;
  EXPECT_THROW(write(folder, "four"), Error);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "two");
  write(folder, "four");
  EXPECT_EQ(names(), (Names{"checkpoint-000004"}));
}

TEST_F(CheckpointFaultTest, AStateThatCannotBeUsedIsPassedOver) {
  write("one");
  write("two");
  CheckpointFolder folder(folder_, 2);
  const auto refuse_two = [](const std::string& state) {
    if (state == "two") throw Error(ErrorCode::kInvalidDataset, "its state.json is no state");
  };
  EXPECT_EQ(folder.newest(skipped_, refuse_two)->state_json, "one");
  ASSERT_EQ(skipped_.size(), 1U);
  EXPECT_EQ(skipped_[0], "checkpoint-000002 is not used: its state.json is no state");
}

TEST_F(CheckpointFaultTest, DamagedOnesDoNotCountAsKept) {
  write("one");
  replace_in(write("two") / "state.json", "two", "owt");
  CheckpointFolder folder(folder_, 2);
  EXPECT_EQ(folder.newest(skipped_)->state_json, "one");
  write(folder, "three");
  EXPECT_EQ(names(), (Names{"checkpoint-000001", "checkpoint-000003"}));
}

TEST_F(CheckpointFaultTest, AFailureAnywhereLeavesTheOlderOnes) {
  for (const int failure : {ENOSPC, EIO, 0}) {
    int num_failed = 0, num_after = 0;
    for (int calls = 0;; ++calls) {
      fs::remove_all(folder_);
      CheckpointFolder folder(folder_, 2);
      write(folder, "one", 1);
      write(folder, "two", 2);
      const Names before = names();
      test::failure = failure;
      test::calls_before_failure = calls;
      bool failed = false;
      try {
        write(folder, "three", 3);
      } catch (const Error& error) {
        failed = true;
        EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs);
        EXPECT_NE(error.message().find(folder_.string()), std::string::npos);
        const char* reason = std::strerror(failure == 0 ? ENOSPC : failure);
        EXPECT_NE(error.message().find(reason), std::string::npos) << error.message();
      }
      const bool is_past = test::calls_before_failure >= 0;
      test::calls_before_failure = -1;
      EXPECT_EQ(folder.newest(skipped_)->state_json, failed ? "two" : "three") << calls;
      EXPECT_TRUE(skipped_.empty()) << skipped_.front();
      if (failed) {
        EXPECT_EQ(names(), before) << calls;
      }
      ++(failed ? num_failed : num_after);
      write(folder, "four", 4);
      EXPECT_EQ(folder.newest(skipped_)->state_json, "four");
      EXPECT_LE(names().size(), 5U) << "at most an empty folder is left";
      if (is_past) break;
    }
    EXPECT_GT(num_failed, 15) << failure;
    EXPECT_GT(num_after, failure == 0 ? 0 : 5) << failure;
  }
}

TEST_F(CheckpointFaultTest, AKillAnywhereLosesNothing) {
  int num_old = 0, num_new = 0;
  for (int calls = 0;; ++calls) {
    fs::remove_all(folder_);
    write("one", 1);
    write("two", 2);
    CheckpointFolder folder(folder_, 2);
    folder.newest(skipped_);
    if (!test::is_killed_after(calls, [&] { write(folder, "three", 3); })) break;
    const auto found = folder.newest(skipped_);
    ASSERT_TRUE(found) << calls;
    EXPECT_EQ(found->best_epoch, found->state_json == "three" ? 3 : 2);
    ++(found->state_json == "three" ? num_new : num_old);
    write(folder, "four", 4);
    write(folder, "five", 4);
    EXPECT_EQ(names().size(), 3U) << "what was begun is removed";
  }
  EXPECT_GT(num_old, 15);
  EXPECT_GT(num_new, 5);
}

TEST_F(CheckpointFaultTest, FoldersThatCannotBeSyncedAreLetBe) {
  test::folder_sync_error = EINVAL;
  write("one");
  test::folder_sync_error = EIO;
  EXPECT_THROW(write("two"), Error);
  test::folder_sync_error = 0;
  EXPECT_EQ(state(), "one");
  test::synced_folders.clear();
  write("two");
  const std::vector<fs::path> wanted{folder_ / "checkpoint-000002", folder_,
                                     folder_ / "checkpoint-000002"};
  EXPECT_EQ(test::synced_folders, wanted);
}

}  // namespace
}  // namespace kiln
