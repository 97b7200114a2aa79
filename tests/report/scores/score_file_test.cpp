#include "report/scores/score_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>

#include "base/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class ScoreFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kiln-scores-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "scores.csv";
    part_ = folder_ / "scores.csv.part";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static ErrorCode code_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.code();
    }
    return {};
  }

  fs::path folder_, path_, part_;
};

TEST_F(ScoreFileTest, HasItsNameOnceItIsWhole) {
  write_file_durably(path_, "earlier");
  ScoreFile file(path_);
  file.write("one\n");
  file.write("two\n");
  EXPECT_EQ(read_file(path_), "earlier");
  EXPECT_EQ(read_file(part_), "one\ntwo\n");
  file.commit();
  EXPECT_EQ(read_file(path_), "one\ntwo\n");
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(ScoreFileTest, LeavesNothingOfAFailure) {
  write_file_durably(path_, "earlier");
  { ScoreFile(path_).write("one\n"); }
  EXPECT_EQ(read_file(path_), "earlier");
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(ScoreFileTest, BeginsAnewWhatAKilledProgramLeft) {
  write_file_durably(part_, "a longer part of another program\n");
  ScoreFile file(path_);
  file.write("one\n");
  file.commit();
  EXPECT_EQ(read_file(path_), "one\n");
}

TEST_F(ScoreFileTest, IsWrittenByOneProgramAtATime) {
  ScoreFile first(path_);
  first.write("one\n");
  EXPECT_EQ(code_of([&] { ScoreFile second(path_); }), ErrorCode::kFailedToWriteOutputs);
  EXPECT_EQ(read_file(part_), "one\n");
}

TEST_F(ScoreFileTest, RefusesWhatCannotBecomeAFile) {
  fs::create_directory(folder_ / "folder.csv");
  for (const fs::path& path :
       {folder_ / "missing/scores.csv", folder_ / "folder.csv", fs::path("/dev/null")})
    EXPECT_EQ(code_of([&] { ScoreFile file(path); }), ErrorCode::kFailedToWriteOutputs) << path;
}

TEST_F(ScoreFileTest, TellsOfAFullDisk) {
  fs::create_symlink("/dev/full", part_);
  std::optional<ScoreFile> file;
  EXPECT_EQ(code_of([&] {
              file.emplace(path_);
              file->write("one\n");
            }),
            ErrorCode::kFailedToWriteOutputs);
  file.reset();
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace kiln
