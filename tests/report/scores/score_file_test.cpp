#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "report/scores/score_file.h"

namespace kiln {
namespace {

const ScoreProgress kProgress{
    .settings = {.rows = {{"--top-k", "3"}, {"the model", "resnet18 \xc3\xa4"}},
                 .bits = {{"--batch-size", "64"}}},
    .num_images = 312,
    .names = 0xFEDCBA9876543210,
    .num_labeled = 300,
    .num_right = 299,
    .num_unsure = 10,
    .num_bad = 2,
    .num_damaged = 1,
    .first_bad = "'a.png': \"no\nimage\"",
    .bytes = 12345,
    .hash = 7,
};

// The text with its first `part` replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string text = format_score_progress(kProgress);
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), other);
}

TEST(ScoreProgress, ReadsWhatItWrites) {
  EXPECT_EQ(parse_score_progress(format_score_progress(kProgress)), kProgress);
  EXPECT_EQ(parse_score_progress(format_score_progress({})), ScoreProgress{});
}

TEST(ScoreProgress, TextsOfAnyBytesAreWritten) {
  ScoreProgress progress = kProgress;
  progress.settings.rows["--data-path"] = "/\xff";
  EXPECT_EQ(parse_score_progress(format_score_progress(progress)).settings.rows.at("--data-path"),
            "/\xef\xbf\xbd");
}

TEST(ScoreProgress, RefusesOtherTexts) {
  const std::string whole = format_score_progress(kProgress);
  for (const std::string& text : {std::string(),
                                  std::string("{}"),
                                  std::string("[]"),
                                  whole + "x",
                                  whole.substr(0, whole.size() / 2),
                                  with("\"version\": 2", "\"version\": 3"),
                                  with("\"images\": 312", "\"images\": -1"),
                                  with("\"images\": 312", "\"images\": 3.5"),
                                  with("\"images\": 312", "\"images\": 99999999999999999999"),
                                  with("\"images\": 312", "\"images\": \"312\""),
                                  with("\"images\": 312", "\"images\": 312, \"images\": 312"),
                                  with("\"images\": 312", "\"images\": 312, \"more\": 1"),
                                  with("\"right\": 299", "\"right\": 301"),
                                  with("\"bad\": 2", "\"bad\": 313"),
                                  with("\"labeled\": 300", "\"labeled\": 311"),
                                  with("\"unsure\": 10", "\"unsure\": 311"),
                                  with("\"3\"", "3"),
                                  with("fedcba9876543210", "FEDCBA9876543210"),
                                  with("fedcba9876543210", "fedcba98765432100"),
                                  with("\"hash\"", "\"hush\"")})
    EXPECT_THROW(parse_score_progress(text), JsonFault) << text;
}

TEST(ScoreProgress, RefusesWhatIsTooLarge) {
  EXPECT_THROW(parse_score_progress(with("a.png", std::string(kMaxProgressBytes, 'a'))), JsonFault);
}

TEST(ScoreProgress, DifferencesAreNamed) {
  EXPECT_TRUE(differences({{"--top-k", "1"}}, {{"--top-k", "1"}}).empty());
  EXPECT_EQ(
      differences({{"--top-k", "1"}, {"--raw", "True"}, {"--old", "x"}},
                  {{"--top-k", "3"}, {"--raw", "True"}, {"--answer-at", ""}}),
      (std::vector<std::string>{"--old was x and is now not given", "--top-k was 1 and is now 3"}));
}

namespace fs = std::filesystem;

class ScoreFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kiln-scores-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "scores.csv";
    part_ = folder_ / "scores.csv.part";
    progress_ = folder_ / "scores.csv.part.json";
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

  // What a job leaves that is killed after row three of which it saved two: its destructor leaves
  // what is saved, as a kill does.
  void leave_two_rows() const {
    ScoreFile file(path_);
    file.restart();
    file.write("one\n");
    file.write("two\n");
    file.save({.num_images = 2});
    file.write("three\n");
  }

  // Without a progress for this reason.
  void expect_damage(const std::string& reason) const {
    ScoreFile file(path_);
    const UnfinishedScores left = file.unfinished();
    EXPECT_FALSE(left.progress);
    EXPECT_NE(left.damage.find(reason), std::string::npos) << left.damage;
  }

  int num_files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_, path_, part_, progress_;
};

TEST_F(ScoreFileTest, HasItsNameOnceItIsWhole) {
  write_file_durably(path_, "earlier");
  ScoreFile file(path_);
  file.restart();
  file.write("one\n");
  file.write("two\n");
  EXPECT_EQ(read_file(path_), "earlier");
  EXPECT_EQ(read_file(part_), "one\ntwo\n");
  file.commit();
  EXPECT_EQ(read_file(path_), "one\ntwo\n");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(ScoreFileTest, LeavesNothingOfAFailureBeforeAnythingIsSaved) {
  write_file_durably(path_, "earlier");
  {
    ScoreFile file(path_);
    file.restart();
    file.write("one\n");
  }
  { const ScoreFile file(path_); }
  EXPECT_EQ(read_file(path_), "earlier");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(ScoreFileTest, BeginsAnewWhatAKilledProgramLeft) {
  write_file_durably(part_, "a longer part of another program\n");
  ScoreFile file(path_);
  const UnfinishedScores left = file.unfinished();
  EXPECT_FALSE(left.progress);
  EXPECT_EQ(left.damage, "");
  file.restart();
  file.write("one\n");
  file.commit();
  EXPECT_EQ(read_file(path_), "one\n");
}

TEST_F(ScoreFileTest, GoesOnAfterTheRowsThatWereSaved) {
  leave_two_rows();
  EXPECT_EQ(read_file(part_), "one\ntwo\nthree\n");
  {
    ScoreFile file(path_);
    const UnfinishedScores left = file.unfinished();
    ASSERT_TRUE(left.progress) << left.damage;
    EXPECT_EQ(left.progress->num_images, 2);
    EXPECT_EQ(left.progress->bytes, 8u);
    file.resume(*left.progress);
    EXPECT_EQ(read_file(part_), "one\ntwo\n");
    file.write("3\n");
    file.save({.num_images = 3});
  }
  ScoreFile file(path_);
  const UnfinishedScores left = file.unfinished();
  ASSERT_TRUE(left.progress) << left.damage;
  EXPECT_EQ(left.progress->num_images, 3);
  file.resume(*left.progress);
  file.write("four\n");
  file.commit();
  EXPECT_EQ(read_file(path_), "one\ntwo\n3\nfour\n");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(ScoreFileTest, WhatIsLeftStaysUntilItIsBegun) {
  leave_two_rows();
  { ScoreFile(path_).unfinished(); }
  EXPECT_EQ(read_file(part_), "one\ntwo\nthree\n");
  EXPECT_TRUE(ScoreFile(path_).unfinished().progress);
}

TEST_F(ScoreFileTest, AProgressNeverStandsBesideRowsOfAnotherJob) {
  leave_two_rows();
  std::ofstream(folder_ / ".kiln-tmp-scores.csv.part.json-12") << "half";
  ScoreFile file(path_);
  file.restart();
  EXPECT_EQ(read_file(part_), "");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(ScoreFileTest, TellsDamage) {
  leave_two_rows();
  const std::string progress = read_file(progress_);
  write_file_durably(progress_, progress.substr(0, 40));
  expect_damage("is not valid JSON");
  write_file_durably(progress_, std::string(kMaxProgressBytes + 1, ' '));
  expect_damage("more than the limit");
  write_file_durably(progress_, progress);
  write_file_durably(part_, "one\ntwO\nthree\n");
  expect_damage("does not match");
  write_file_durably(part_, "one\n");
  expect_damage("does not match");
  write_file_durably(part_, "one\ntwo\n");
  EXPECT_TRUE(ScoreFile(path_).unfinished().progress);
  fs::remove(part_);
  expect_damage("");
}

TEST_F(ScoreFileTest, DiscardsWhatWasSaved) {
  leave_two_rows();
  {
    ScoreFile file(path_);
    file.resume(*file.unfinished().progress);
    file.discard();
  }
  EXPECT_EQ(num_files(), 0);
}

TEST_F(ScoreFileTest, IsWrittenByOneProgramAtATime) {
  ScoreFile first(path_);
  first.restart();
  first.write("one\n");
  EXPECT_EQ(code_of([&] { const ScoreFile second(path_); }), ErrorCode::kFailedToWriteOutputs);
  EXPECT_EQ(read_file(part_), "one\n");
}

TEST_F(ScoreFileTest, RefusesWhatCannotBecomeAFile) {
  fs::create_directory(folder_ / "folder.csv");
  for (const fs::path& path :
       {folder_ / "missing/scores.csv", folder_ / "folder.csv", fs::path("/dev/null")})
    EXPECT_EQ(code_of([&] { const ScoreFile file(path); }), ErrorCode::kFailedToWriteOutputs)
        << path;
}

TEST_F(ScoreFileTest, TellsOfAFullDisk) {
  fs::create_symlink("/dev/full", part_);
  std::optional<ScoreFile> file;
  EXPECT_EQ(code_of([&] {
              file.emplace(path_);
              file->restart();
              file->write("one\n");
            }),
            ErrorCode::kFailedToWriteOutputs);
  file.reset();
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace

}  // namespace kiln
