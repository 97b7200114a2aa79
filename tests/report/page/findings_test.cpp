#include "report/page/page.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Verdict, ComparesWithTheMajorityClass) {
  RunRecord run = sample_run(5);
  EXPECT_EQ(verdict(run).judged, Judged::kGood);
  EXPECT_HAS(verdict(run).text, "84.0 %");
  EXPECT_HAS(verdict(run).text, "50.0 %");
  run.start.data.valid_counts = {340, 60};
  EXPECT_EQ(verdict(run).judged, Judged::kWarning);
}

TEST(Verdict, SpeaksOfTheSavedEpoch) {
  RunRecord run = sample_run(5, {"a", "b", "c"});
  run.end.saved_epoch = 1;
  EXPECT_HAS(verdict(run).text, "top-1 is 60.0 %");
  EXPECT_HAS(all_of(run, Judged::kGood) + all_of(run, Judged::kWarning),
             "between 55.1 % and 64.7 %");
  EXPECT_HAS(comparison_text({{"a", run}}), "5/5 (saved: 1)");
  EXPECT_HAS(verdict_html(run), "id=\"best-top1\"");
  EXPECT_LACKS(verdict_html(run), "id=\"top5\"");  // says nothing for three classes
  run.end.saved_epoch = 0;                         // still running: what would be saved now
  run.details.epoch = 2;
  EXPECT_HAS(verdict(run).text, "top-1 is 75.0 %");
}

TEST(Verdict, AFewHitsAreNoEvidence) {
  RunRecord run = sample_run(1, std::vector<std::string>(47, "x"));
  run.start.data.valid_counts.assign(47, 1);
  run.epochs[0].valid = {47, 3, 3, 47};
  EXPECT_EQ(verdict(run).judged, Judged::kWarning);  // though Wilson's interval begins at 2.2 %
  run.epochs[0].valid = {47, 6, 6, 47};
  EXPECT_EQ(verdict(run).judged, Judged::kGood);
}

TEST(Verdict, ChanceIsAnExactBinomialTest) {
  EXPECT_FALSE(is_above_chance(14, 20, 0.5));  // 5.8 %
  EXPECT_TRUE(is_above_chance(15, 20, 0.5));   // 2.1 %
  EXPECT_FALSE(is_above_chance(0, 0, 0.5));
  EXPECT_FALSE(is_above_chance(20, 20, 1));
  EXPECT_TRUE(is_above_chance(1, 20, 0));
  EXPECT_TRUE(is_above_chance(510'000, 1'000'000, 0.5));
}

TEST(NextSteps, GiveOnlyAdviceThatApplies) {
  RunRecord run = sample_run(2);
  for (EpochRecord& epoch : run.epochs) epoch.valid = totals_of(400, 1, 0.5);
  run.start.steps_per_epoch = 5;
  const auto steps = [&] {
    std::string all;
    for (const std::string& step : next_steps(run)) all += step + "\n";
    return all;
  };
  EXPECT_LACKS(steps(), "fewer ranks");
  EXPECT_HAS(steps(), "pretrained weights");
  run.start.num_ranks = 2;
  run.start.plan = {{"weights", "122 of 122 tensors"}};
  EXPECT_HAS(steps(), "fewer ranks");
  EXPECT_LACKS(steps(), "pretrained weights");
}

TEST(NextSteps, BeginWithPretrainedWeightsForFewPhotos) {
  RunRecord run = sample_run(5);
  const std::string line = "`kiln train photos --weights torchvision` begins";
  run.start.plan = {{"better start", line}};
  EXPECT_TRUE(next_steps(run).front().starts_with(line)) << next_steps(run).front();
  for (EpochRecord& epoch : run.epochs) epoch.valid = totals_of(400, 1, 0.5);
  EXPECT_TRUE(next_steps(run).front().starts_with(line)) << next_steps(run).front();
}

TEST(Verdict, NamesWhatIsUnknown) {
  EXPECT_HAS(verdict(sample_run(0)).text, "No epoch was finished");
  EXPECT_HAS(verdict(sample_run(1, {"only"})).text, "only one class");
  RunRecord run = sample_run(1);
  run.epochs[0].valid = {};
  EXPECT_HAS(verdict(run).text, "No validation image");
}

TEST(Findings, SayHowTheRunEnded) {
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
  run.end.stopped_early = "time-limit";
  EXPECT_HAS(all_of(run, Judged::kNote), "`--time-limit` ended training after 3 epochs");
}

TEST(Findings, NameTheIntervalAndCallItWideForFewImages) {
  RunRecord run = sample_run(5);
  EXPECT_HAS(all_of(run, Judged::kGood),
             "With 400 validation images, the true top-1 lies between 80.1 % and 87.3 %");
  run.epochs[4].valid = totals_of(20, 0.2, 0.9);
  EXPECT_HAS(all_of(run, Judged::kWarning), "too few images");
}

TEST(Findings, DetectOverfitting) {
  RunRecord run = sample_run(6);
  run.epochs[5].valid = run.epochs[4].valid;
  EXPECT_HAS(all_of(run, Judged::kGood), "no sign of overfitting");
  run.epochs[5].train = totals_of(1000, 0.01, 1);
  EXPECT_HAS(all_of(run, Judged::kWarning), "It overfits");
  run = sample_run(6);
  run.epochs[5].valid.top1 = run.epochs[4].valid.top1;
  run.epochs[5].valid.loss_sum = 400;
  run.epochs[4].valid.loss_sum = 300;
  EXPECT_HAS(all_of(run, Judged::kNote), "lowest in epoch 4 (0.300) and has risen to 1.000");
}

TEST(Findings, SayWhetherItWasStillImproving) {
  EXPECT_HAS(all_of(sample_run(8), Judged::kNote), "still improving");
  RunRecord done = sample_run(8);
  done.epochs[7].valid = done.epochs[6].valid;
  EXPECT_LACKS(all_of(done, Judged::kNote), "still improving");
}

TEST(Findings, AreNotOfProcessorTime) {
  RunRecord run = sample_run(2);
  for (EpochRecord& epoch : run.epochs) epoch.cpu_share = 0.62;
  EXPECT_LACKS(all_of(run, Judged::kWarning), "62.0 %");
  EXPECT_HAS(speed_ladder(run).at(1).text, "62.0 %");
}

TEST(Findings, AreNeverGoodBesideADoubt) {
  RunRecord run = sample_run(5);
  run.epochs[4].valid = run.epochs[3].valid;
  run.warnings = {"a file was skipped"};
  EXPECT_EQ(verdict(run).judged, Judged::kGood);
  EXPECT_HAS(all_of(run, Judged::kGood), "no sign of overfitting");
  EXPECT_LACKS(all_of(run, Judged::kWarning), "a file was skipped");
  run.epochs[0].doubts = {"The weights know the images."};
  EXPECT_EQ(findings(run).front().text, "The weights know the images.");
  EXPECT_EQ(findings(run).front().judged, Judged::kWarning);
  EXPECT_EQ(all_of(run, Judged::kGood), "");
  EXPECT_EQ(verdict(run).judged, Judged::kNote);
}

// All combinations of what decides the findings about training as a whole: findings and advice must
// never contradict each other.
TEST(Findings, NeverContradictEachOther) {
  const std::vector<std::string> trends = {"diverged", "overfits", "lowest in epoch", "improving",
                                           "no sign of over"};
  int num_runs = 0;
  for (const int num_epochs : {1, 2, 3, 4, 8, 20})
    for (const double train : {0.30, 0.55, 0.70, 0.99})
      for (const double valid : {0.36, 0.52, 0.65})
        for (const std::int64_t images : {40, 4000})
          for (const double late_gain : {-0.10, 0.0, 0.02})
            for (const double late_loss : {0.5, 1.0, 2.0})
              for (const char* augment : {"none", "strong"}) {
                RunRecord run = sample_run(num_epochs);
                run.start.data.augment = augment;
                run.start.steps_per_epoch = 10;
                run.start.data.valid_counts = {images / 2, images / 2};
                for (EpochRecord& epoch : run.epochs) {
                  epoch.train = totals_of(1000, 1, train);
                  epoch.valid = totals_of(images, 1, valid - late_gain);
                }
                run.epochs.back().valid = totals_of(images, late_loss, valid);
                std::string said;
                for (const Finding& finding : findings(run)) said += finding.text + "\n";
                const auto mentioned = [&](const std::string& part) {
                  return said.find(part) != std::string::npos;
                };
                EXPECT_LE(std::count_if(trends.begin(), trends.end(), mentioned), 1) << said;
                std::string steps;
                for (const std::string& step : next_steps(run)) steps += step + "\n";
                EXPECT_FALSE(steps.find("Train longer") != steps.npos &&
                             steps.find("fewer `--epochs`") != steps.npos)
                    << steps;
                if (num_epochs == 1) {
                  EXPECT_LACKS(steps, "fewer `--epochs`");
                }
                if (verdict(run).judged != Judged::kGood) {
                  EXPECT_LACKS(said, "no sign of over");
                }
                if (train <= valid) {
                  EXPECT_LACKS(said, "overfits");
                }
                ++num_runs;
              }
  EXPECT_EQ(num_runs, 6 * 4 * 3 * 2 * 3 * 3 * 2);
}

TEST(NextSteps, BeginWithProblemsOfTheData) {
  RunRecord run = sample_run(5, {"cat", "dog", "bird"});
  run.start.data.valid_counts = {200, 200, 0};
  run.epochs[4].bad_train_images = 1;
  const std::vector<std::string> steps = next_steps(run);
  ASSERT_GE(steps.size(), 3U);
  EXPECT_HAS(steps[0], "bird");
  EXPECT_HAS(steps[1], "could not be decoded");
  EXPECT_TRUE(next_steps(sample_run(0)).empty());
}

TEST(Findings, NameTheWeakestClass) {
  RunRecord run = sample_run(5, {"cat", "dog", "bird"});
  run.details.epoch = 5;
  run.details.confusion = matrix_of({{90, 10, 0}, {2, 98, 0}, {60, 10, 30}});
  const std::string text = all_of(run, Judged::kWarning);
  EXPECT_HAS(text, "bird” only 30.0 % are recognized; most often they are predicted as “cat");
}

TEST(Findings, WarnOfImbalanceEmptyClassesAndBadImages) {
  RunRecord run = sample_run(5, {"cat", "dog", "bird"});
  run.start.data.train_counts = {3000, 40, 900};
  run.start.data.valid_counts = {200, 200, 0};
  run.epochs[4].bad_train_images = 12;
  const std::string text = all_of(run, Judged::kWarning);
  EXPECT_HAS(text, "cat” has 3,000 training images, “dog” 40");
  EXPECT_HAS(text, "train with `--sample balanced` or `--class-weights balanced`");
  EXPECT_HAS(text, "No validation images of “bird”");
  EXPECT_HAS(text, "12 training and 0 validation images could not be decoded");
  run.start.data.train_counts[1] = 0;
  EXPECT_HAS(all_of(run, Judged::kWarning), "dog” has no training images");
}

TEST(Findings, SayWhatWasDoneAgainstImbalance) {
  RunRecord run = sample_run(5);
  run.start.data.train_counts = {3000, 40};
  run.start.options = {{"sample", "balanced"}, {"class-weights", "none"}};
  EXPECT_HAS(all_of(run, Judged::kWarning), "`--sample balanced` drew all classes equally often");
  EXPECT_LACKS(all_of(run, Judged::kWarning), "To favor small classes");
  run.start.options = {{"sample", "shuffle"}, {"class-weights", "sqrt"}};
  EXPECT_HAS(all_of(run, Judged::kWarning), "`--class-weights sqrt` gave images");
}

TEST(NextSteps, AreToRemoveImagesThatTrainingSees) {
  RunRecord run = sample_run(5);
  run.epochs[0].valid_in_train = 37;
  EXPECT_HAS(next_steps(run).front(), "Remove the shared images");
}

TEST(Findings, SayWhereTheLossStoppedBeingANumber) {
  RunRecord run = sample_run(5);
  run.epochs[2].train.loss_sum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_HAS(all_of(run, Judged::kWarning), "from epoch 3 on");
}

// The first rung that is worth it.
std::string next_rung(const RunRecord& run) {
  for (const Rung& rung : speed_ladder(run))
    if (rung.is_worth_it) return rung.text;
  return "";
}

TEST(SpeedLadder, GoesFromImagesToMoreMachines) {
  EXPECT_TRUE(speed_ladder(sample_run(0)).empty());
  RunRecord run = sample_run(2);
  EXPECT_EQ(speed_ladder(run).size(), 3U);  // without a GPU there is no load to fill
  EXPECT_HAS(next_rung(run), "a GPU");
  for (EpochRecord& epoch : run.epochs) epoch.gpu = {.utilization_percent = 45, .power_watts = 100};
  EXPECT_HAS(next_rung(run), "`--batch-size`");
  for (EpochRecord& epoch : run.epochs) epoch.gpu->utilization_percent = 95;
  run.start.precision = "fp32";
  EXPECT_HAS(next_rung(run), "`--precision auto`");
  run.start.precision = "bf16";
  EXPECT_HAS(next_rung(run), "a faster GPU");
  for (EpochRecord& epoch : run.epochs) epoch.times.data_wait = 3.8;
  EXPECT_HAS(next_rung(run), "38.0 % of training waited for images");
  for (EpochRecord& epoch : run.epochs) epoch.times = {};
  for (EpochRecord& epoch : run.epochs) epoch.valid_seconds = 30;
  EXPECT_HAS(next_rung(run), "75.0 %");
}

TEST(SpeedLadder, AnIdleGpuCouldBeASmallerOne) {
  RunRecord run = sample_run(2);
  run.start.precision = "bf16";
  for (EpochRecord& epoch : run.epochs) {
    epoch.gpu = {.utilization_percent = 12, .power_watts = 100};
    epoch.times.data_wait = 8;
  }
  EXPECT_HAS(speed_ladder(run).at(2).text, "cheaper GPU");
  run.start.precision = "fp32";
  EXPECT_HAS(speed_ladder(run).at(2).text, "would keep up with the loader.");
  run.start.options.emplace_back("price-per-hour", "4");  // 100 images/s
  EXPECT_HAS(speed_ladder(run).at(2).text, "costs less than 4.00 per hour for every 100 images/s");
}

TEST(SpeedLadder, AGpuThatDoesNotTellItsLoadIsNoCpu) {
  RunRecord run = sample_run(2);
  run.start.precision = "bf16";
  run.end.peak_device_bytes = 1 << 30;
  for (const Rung& rung : speed_ladder(run)) EXPECT_EQ(rung.text.find("CPU"), std::string::npos);
  EXPECT_HAS(speed_ladder(run).at(1).text, "does not tell how busy it was");
}

TEST(SpeedLadder, AnIdleGpuNeedsNoMixedPrecision) {
  RunRecord run = sample_run(2);
  for (EpochRecord& epoch : run.epochs) epoch.gpu = {.utilization_percent = 12, .power_watts = 100};
  run.start.precision = "fp32";
  EXPECT_HAS(speed_ladder(run).at(2).text,
             "or CPUs (`--device cpu`), may train this network as fast");
  EXPECT_HAS(speed_ladder(run).at(2).text, "too small for mixed precision to help");
}

TEST(SpeedLadder, ProcessorsAreARung) {
  RunRecord run = sample_run(2);
  for (EpochRecord& epoch : run.epochs) epoch.cpu_share = 0.5;
  ASSERT_EQ(speed_ladder(run).size(), 4U);
  EXPECT_TRUE(speed_ladder(run)[1].is_worth_it);
  EXPECT_HAS(speed_ladder(run)[1].text, "ran for 50.0 % of the time");
  for (EpochRecord& epoch : run.epochs) epoch.cpu_share = 0.95;
  EXPECT_FALSE(speed_ladder(run)[1].is_worth_it);
}

TEST(SpeedLadder, RanksThatWaitForSumsAreNotHelpedByMore) {
  RunRecord run = sample_run(2);
  EXPECT_HAS(speed_ladder(run).back().text, "kiln launch --hosts");
  run.start.num_ranks = 4;
  run.start.plan = {{"ranks", "4 on hosts node7, node8, each bound to 2 processors; global batch"}};
  EXPECT_HAS(speed_ladder(run).back().text, "4 on hosts node7, node8 waited");
  EXPECT_HAS(speed_ladder(run).back().text, "more would still help");
  for (EpochRecord& epoch : run.epochs) epoch.times.communication = 5;
  EXPECT_HAS(speed_ladder(run).back().text, "50.0 % of training. First try `--accumulate`");
}

}  // namespace
}  // namespace kiln
