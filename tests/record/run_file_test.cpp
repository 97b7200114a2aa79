#include "record/run_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "record/picture_file.h"
#include "report/run_samples.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class RunFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const RunRecord& run) const { record_run(run, file_); }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("run_file_" + std::to_string(::getpid()));
  const fs::path file_ = folder_ / kRunFileName;
};

TEST_F(RunFileTest, RoundTripsARun) {
  const RunRecord told = hostile_run();
  write(told);
  const RunRecord read = read_run(folder_);
  EXPECT_EQ(read.start.options, told.start.options);
  EXPECT_EQ(read.start.host, "node7");
  EXPECT_EQ(read.start.precision, "fp16");
  EXPECT_EQ(read.start.precision_reason, told.start.precision_reason);
  EXPECT_EQ(read.start.data.classes, told.start.data.classes);
  EXPECT_EQ(read.start.data.mean[1], 0.5);
  EXPECT_EQ(read.warnings, told.warnings);
  ASSERT_EQ(read.steps.size(), 2U);
  EXPECT_EQ(read.steps[0].batch.loss_sum, 12.5);
  EXPECT_TRUE(std::isnan(read.steps[1].batch.loss_sum));
  EXPECT_TRUE(std::isinf(read.steps[1].batch_images_per_second));
  EXPECT_EQ(read.steps[1].times.optimizer, 0.5);
  ASSERT_EQ(read.epochs.size(), 2U);
  EXPECT_EQ(read.epochs[1].valid.top1, 8);
  EXPECT_EQ(read.epochs[1].gpu->power_watts, 350);
  EXPECT_EQ(read.epochs[1].communication->waiting, 1);
  EXPECT_EQ(read.epochs[0].valid_in_train, 3);
  EXPECT_EQ(read.epochs[0].skipped_steps, 2);
  EXPECT_FALSE(read.epochs[1].valid_in_train);
  EXPECT_EQ(read.details.confusion.counts, told.details.confusion.counts);
  EXPECT_EQ(read.details.calibration, told.details.calibration);
  EXPECT_TRUE(read.details.pictures.empty());
  EXPECT_EQ(read.end.status, RunStatus::kFinished);
  EXPECT_TRUE(read.end.image_faults.at(0).damaged);
}

TEST_F(RunFileTest, PicturesAreThoseOfTheBestEpochOfTheRun) {
  const RunRecord told = hostile_run();
  write(told);
  const std::filesystem::path pictures = file_.parent_path() / kPicturesName;
  RunRecord read = parse_run(read_file(file_));
  ASSERT_EQ(read_pictures(pictures, &read), "");
  ASSERT_EQ(read.details.pictures.size(), 1U);
  const std::vector<JudgedImage>& images = read.details.pictures[0].images;
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(images[0].thumbnail.jpeg, told.details.pictures[0].images[0].thumbnail.jpeg);
  EXPECT_EQ(images[0].heat_map.jpeg, "map");
  EXPECT_EQ(images[0].best.at(1).share, 0.1);
  EXPECT_EQ(images[1].file, "cat/2.jpg");
  RunRecord other = read;
  other.details.pictures.clear();
  other.details.epoch = 1;
  EXPECT_EQ(read_pictures(pictures, &other), "");
  EXPECT_TRUE(other.details.pictures.empty()) << "of another epoch";
  std::string bytes = read_file(pictures);
  bytes.pop_back();
  write_file_durably(pictures, bytes);
  EXPECT_NE(read_pictures(pictures, &read), "");
  EXPECT_TRUE(read.details.pictures.empty());
}

TEST_F(RunFileTest, TrainingJsonCountsTheImagesThatBothSetsHave) {
  RunRecord run = hostile_run();
  const auto has = [&](const std::string& field) {
    return format_training_json(run, run.end).find(field) != std::string::npos;
  };
  EXPECT_TRUE(has("\"validation_images_in_training\": 3"));
  run.epochs[0].valid_in_train.reset();
  EXPECT_TRUE(has("\"validation_images_in_training\": null"));
}

TEST_F(RunFileTest, ARunThatWasKilledIsReadUpToItsLastWholeLine) {
  write(hostile_run());
  std::string text = read_file(file_);
  text.resize(text.size() - 5);
  const RunRecord read = parse_run(text);
  EXPECT_EQ(read.epochs.size(), 2U);
  EXPECT_EQ(read.end.status, RunStatus::kRunning);
}

TEST_F(RunFileTest, AFollowerReadsNewLines) {
  RunFollower follower(file_);
  EXPECT_FALSE(follower.read_news());
  write(hostile_run());
  const std::string whole = read_file(file_);
  std::ofstream(file_) << whole.substr(0, whole.size() / 2);
  EXPECT_TRUE(follower.read_news());
  EXPECT_EQ(follower.run().end.status, RunStatus::kRunning);
  std::ofstream(file_, std::ios::app) << whole.substr(whole.size() / 2);
  EXPECT_TRUE(follower.read_news());
  EXPECT_EQ(follower.run().epochs.size(), 2U);
  EXPECT_EQ(follower.run().end.status, RunStatus::kFinished);
  EXPECT_FALSE(follower.read_news());
}

TEST_F(RunFileTest, OtherFilesAreRefusedWithALineNumber) {
  for (const std::string text :
       {"", "{}\n", "not JSON\n", "{\"event\":\"step\"}\n",
        "{\"event\":\"start\",\"time\":\"soon\"}\n",
        "{\"event\":\"start\",\"time\":1,\"data\":[1]}\n",
        "{\"event\":\"start\",\"time\":1}\n{\"event\":\"epoch\",\"judgement\":{\"confusion\":"
        "{\"num_classes\":99999,\"cells\":[]}}}\n"})
    EXPECT_THROW(parse_run(text), Error) << text;
  try {
    read_run(folder_ / "nowhere");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--log-path"), std::string::npos);
  }
}

TEST_F(RunFileTest, TwoRunsDoNotShareAFile) {
  EXPECT_FALSE(AppendedFile::is_abandoned(file_)) << "there is none";
  {
    AppendedFile first(file_);
    first.append("first");
    EXPECT_FALSE(AppendedFile::is_abandoned(file_));
    EXPECT_THROW(AppendedFile{file_}, Error);
    EXPECT_EQ(read_file(file_), "first");
  }
  EXPECT_TRUE(AppendedFile::is_abandoned(file_));
  EXPECT_FALSE(AppendedFile::is_abandoned("/dev/null")) << "nobody locks a device";
}

TEST_F(RunFileTest, APipeThatNobodyReadsIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THROW(AppendedFile{file_}, Error);
  RunFollower follower(file_);
  EXPECT_THROW(follower.read_news(), Error);
}

TEST_F(RunFileTest, AFullDiskLeavesWholeLines) {
  fs::create_symlink("/dev/full", file_);
  const auto sink = make_run_file(file_);
  EXPECT_THROW(sink->start(hostile_run().start), Error);
}

}  // namespace
}  // namespace kiln
