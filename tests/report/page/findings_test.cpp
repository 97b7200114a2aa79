#include "report/page/page.h"

#include <gtest/gtest.h>

#include <limits>

#include "report/sample_run.h"

namespace kiln {
namespace {

std::string all_of(const RunRecord& run, Judged judged) {
  std::string text;
  for (const Finding& finding : findings(run))
    if (finding.judged == judged) text += finding.text + "\n";
  return text;
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)
#define EXPECT_LACKS(text, part) \
  EXPECT_EQ(std::string(text).find(part), std::string::npos) << (text)

TEST(Prediction, ComparesWithAlwaysAnsweringTheSame) {
  RunRecord run = sample_run(5);
  EXPECT_EQ(verdict(run).judged, Judged::kGood);
  EXPECT_HAS(verdict(run).text, "It learned: 84.0 %");
  EXPECT_HAS(verdict(run).text, "would get 50.0 %");
  run.start.data.valid_counts = {340, 60};
  EXPECT_EQ(verdict(run).judged, Judged::kWarning);
  EXPECT_HAS(verdict(run).text, "Nothing shows that it has learned");
}

TEST(Prediction, SaysWhatIsNotKnown) {
  EXPECT_HAS(verdict(sample_run(0)).text, "No epoch was finished");
  EXPECT_HAS(verdict(sample_run(1, {"only"})).text, "only one class");
  RunRecord run = sample_run(1);
  run.epochs[0].valid = {};
  EXPECT_HAS(verdict(run).text, "No validation image");
}

TEST(Findings, TellHowTheRunEnded) {
  RunRecord run = sample_run(3);
  run.start.num_epochs = 9;
  run.end.status = RunStatus::kRunning;
  EXPECT_HAS(all_of(run, Judged::kWarning), "it was killed. It has finished 3 of 9 epochs");
  run.end.status = RunStatus::kFailed;
  run.end.failure = "The disk is full.";
  EXPECT_HAS(all_of(run, Judged::kWarning), "failed after 3 of 9 epochs: The disk is full.");
  run.end.status = RunStatus::kFinished;
  run.end.stopped_early = "patience";
  EXPECT_HAS(all_of(run, Judged::kNote), "stopped early, after 3 of 9 epochs");
}

TEST(Findings, NameTheIntervalAndCallItWideForFewImages) {
  RunRecord run = sample_run(5);
  EXPECT_HAS(all_of(run, Judged::kGood),
             "With 400 validation images, the true top-1 lies between 80.1 % and 87.3 %");
  run.epochs[4].valid = totals_of(20, 0.2, 0.9);
  EXPECT_HAS(all_of(run, Judged::kWarning), "too few images");
}

TEST(Findings, SeeOverfitting) {
  RunRecord run = sample_run(6);
  EXPECT_HAS(all_of(run, Judged::kGood), "no sign of overfitting");
  run.epochs[5].train = totals_of(1000, 0.01, 1);
  EXPECT_HAS(all_of(run, Judged::kWarning), "it overfits");
  run = sample_run(6);
  run.epochs[5].valid.loss_sum = 400;
  run.epochs[4].valid.loss_sum = 300;
  EXPECT_HAS(all_of(run, Judged::kNote), "lowest in epoch 4 (0.300) and has risen to 1.000");
}

TEST(Findings, AskForMoreEpochsWhileItImproves) {
  EXPECT_HAS(all_of(sample_run(8), Judged::kNote), "more `--epochs`");
  RunRecord done = sample_run(8);
  done.epochs[7].valid = done.epochs[6].valid;
  EXPECT_LACKS(all_of(done, Judged::kNote), "more `--epochs`");
}

TEST(Findings, NameTheWeakestClass) {
  RunRecord run = sample_run(5, {"cat", "dog", "bird"});
  run.details.epoch = 5;
  run.details.confusion = matrix_of({{90, 10, 0}, {2, 98, 0}, {60, 10, 30}});
  const std::string text = all_of(run, Judged::kWarning);
  EXPECT_HAS(text, "bird\u2069” only 30.0 % are recognised, most others are taken for “\u2068cat");
}

TEST(Findings, WarnOfUnevenEmptyAndBad) {
  RunRecord run = sample_run(5, {"cat", "dog", "bird"});
  run.start.data.train_counts = {3000, 40, 900};
  run.start.data.valid_counts = {200, 200, 0};
  run.epochs[4].bad_train_images = 12;
  const std::string text = all_of(run, Judged::kWarning);
  EXPECT_HAS(text, "cat\u2069” has 3,000 training images, “\u2068dog\u2069” 40");
  EXPECT_HAS(text, "One class has no validation images");
  EXPECT_HAS(text, "12 training and 0 validation images could not be decoded");
  run.start.data.train_counts[1] = 0;
  EXPECT_HAS(all_of(run, Judged::kWarning), "dog\u2069” has no training images");
}

TEST(Findings, SayWhereTheLossStoppedBeingANumber) {
  RunRecord run = sample_run(5);
  run.epochs[2].train.loss_sum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_HAS(all_of(run, Judged::kWarning), "from epoch 3 on");
}

TEST(TimeFinding, NamesTheBiggestCost) {
  RunRecord run = sample_run(2);
  EXPECT_HAS(time_finding(run), "98.0 % of training time went into computing");
  for (EpochRecord& epoch : run.epochs) epoch.times.data_wait = 3.8;
  EXPECT_HAS(time_finding(run),
             "38.0 % of each training step waited for images: more `--loader-threads`");
  for (EpochRecord& epoch : run.epochs) epoch.times = {.communication = 2.5};
  EXPECT_HAS(time_finding(run), "25.0 % of each training step waited for sums");
  for (EpochRecord& epoch : run.epochs) epoch.valid_seconds = 30;
  for (EpochRecord& epoch : run.epochs) epoch.times = {};
  EXPECT_HAS(time_finding(run), "75.0 % of the time went into validation");
  EXPECT_EQ(time_finding(sample_run(0)), "");
}

}  // namespace
}  // namespace kiln
