#include "base/output_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/system_calls.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using namespace std::string_literals;

class OutputFolderTest : public testing::Test {
 protected:
  OutputFolderTest() { fs::create_directories(folder_); }
  ~OutputFolderTest() override {
    test::folder_sync_error = 0;
    fs::remove_all(root_);
  }

  void put(const std::string& name, const std::string& bytes = "old") const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (!entry.is_directory()) found.insert(entry.path().lexically_relative(folder_));
    return found;
  }
  // `a`, `below/b` and, last, `valid` take the place of what is there; `gone` goes.
  void replace() const {
    const OutputFolder output(folder_);
    fs::create_directories(folder_ / "below");
    std::vector<DurableFile> files;
    for (const char* name : {"a", "below/b", "valid"}) {
      files.emplace_back(folder_ / name);
      files.back().write("new");
    }
    output.replace(std::move(files), {"gone"});
  }
  template <typename Action>
  static void expect_refused(Action&& action) {
    try {
      action();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedToWriteOutputs) << error.message();
    }
  }

  fs::path root_ = fs::path(testing::TempDir()) /
                   ("kiln-output-" + std::to_string(::getpid()) + "-" +
                    testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::path folder_ = root_ / "output";
};

TEST_F(OutputFolderTest, ReplacesFilesAndRemovesOthers) {
  for (const char* name : {"a", "valid", "gone", "other"}) put(name);
  replace();
  EXPECT_EQ(names(), (std::set<std::string>{"a", "below/b", "other", "valid"}));
  EXPECT_EQ(read_file(folder_ / "a") + read_file(folder_ / "valid"), "newnew");
}

TEST_F(OutputFolderTest, AKillAnywhereLeavesTheOldFilesOrLeadsToTheNewOnes) {
  int num_old = 0, num_new = 0;
  for (int calls = 0;; ++calls) {
    fs::remove_all(folder_);
    for (const char* name : {"a", "below/b", "valid", "gone"}) put(name);
    if (!test::is_killed_after(calls, [this] { replace(); })) break;
    // The start after it may be killed as well.
    for (int more = 0; test::is_killed_after(more, [this] { OutputFolder{folder_}; }); ++more) {
    }
    EXPECT_FALSE(is_half_replaced(folder_));
    const std::string found = read_file(folder_ / "valid");
    for (const char* name : {"a", "below/b"}) EXPECT_EQ(read_file(folder_ / name), found) << calls;
    EXPECT_EQ(fs::exists(folder_ / "gone"), found == "old") << calls;
    ++(found == "old" ? num_old : num_new);
  }
  EXPECT_GT(num_old, 3);
  EXPECT_GT(num_new, 3);
}

TEST_F(OutputFolderTest, WhatWasInterruptedCanBeDiscarded) {
  const auto interrupt = [this] {
    int calls = 0;
    do {
      fs::remove_all(folder_);
      ASSERT_TRUE(test::is_killed_after(calls++, [this] { replace(); }));
    } while (!is_half_replaced(folder_) || !fs::exists(folder_ / "a"));
  };
  interrupt();
  EXPECT_FALSE(fs::exists(folder_ / "valid"));
  OutputFolder(folder_, OutputFolder::Interrupted::kDiscard);
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(OutputFolderTest, OneProgramAtATime) {
  {
    const OutputFolder output(folder_);
    expect_refused([&] { OutputFolder{folder_}; });
  }
  ASSERT_TRUE(test::is_killed_after(0, [this] {
    const OutputFolder output(folder_);
    ::raise(SIGKILL);
  }));
  EXPECT_NO_THROW(OutputFolder{folder_}) << "the lock of a dead program is gone";
}

TEST_F(OutputFolderTest, AFailureBeforeTheListLeavesTheFolderAsItWas) {
  for (const char* name : {"a", "valid", "gone"}) put(name);
  test::folder_sync_error = EIO;
  expect_refused([this] { replace(); });
  EXPECT_EQ(names(), (std::set<std::string>{"a", "gone", "valid"}));
  test::folder_sync_error = 0;
  fs::create_directories(folder_ / "below/b");
  expect_refused([this] { replace(); });
  EXPECT_EQ(names(), (std::set<std::string>{"a", "gone", "valid"}));
}

TEST_F(OutputFolderTest, WhereFilesCannotBeMadeSyncedOrRenamedWorkDoesNotBegin) {
  const OutputFolder output(folder_);
  EXPECT_NO_THROW(output.prepare());
  test::failure = ENOSYS;
  for (const int calls : {0, 1, 2, 3}) {  // open, write, fsync, rename
    test::calls_before_failure = calls;
    expect_refused([&] { output.prepare(); });
    EXPECT_EQ(test::calls_before_failure, -1) << "no call failed";
  }
  test::failure = 0;
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(OutputFolderTest, AListThatLeadsElsewhereIsRefused) {
  std::ofstream(root_ / "outside") << "precious";
  fs::create_directory_symlink(root_, folder_ / "link");
  put(".kiln-tmp-a-1", "new");
  const std::string magic = "kiln-journal-1\0"s;
  const std::string good = ".kiln-tmp-a-1\0a\0"s;
  for (const std::string& list :
       {""s, "garbage"s, magic, magic + good.substr(0, good.size() - 1), magic + "\0outside\0"s,
        magic + "\0../outside\0"s + good, magic + "\0link/outside\0"s + good,
        magic + ".kiln-tmp-a-1\0../outside\0"s, magic + "../outside\0a\0"s, magic + "a\0b\0"s,
        magic + "\0\0"s + good}) {
    put(".kiln-journal", list);
    expect_refused([this] { OutputFolder{folder_}; });
    EXPECT_EQ(read_file(root_ / "outside"), "precious");
    EXPECT_EQ(read_file(folder_ / ".kiln-tmp-a-1"), "new");
  }
  put(".kiln-journal", magic + good);
  OutputFolder{folder_};
  EXPECT_EQ(read_file(folder_ / "a"), "new");
}

}  // namespace
}  // namespace kiln
