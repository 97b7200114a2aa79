#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "record/run_summary.h"
#include "report/sample_run.h"

namespace kiln {
namespace {

// R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine
// 17 (1998), table I.
TEST(WilsonInterval, AgreesWithPublishedValues) {
  const Interval some = wilson_interval(15, 148);
  EXPECT_NEAR(some.low, 0.0624, 0.0001);
  EXPECT_NEAR(some.high, 0.1605, 0.0001);
  const Interval none = wilson_interval(0, 20);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611, 0.0001);
  const Interval all = wilson_interval(10, 10);
  EXPECT_NEAR(all.low, 0.7225, 0.0001);
  EXPECT_DOUBLE_EQ(all.high, 1);
}

TEST(WilsonInterval, IsTheWholeRangeWithoutImages) {
  EXPECT_EQ(wilson_interval(0, 0).low, 0);
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

// bench/trust.py: of 100 subsets of each size, 85, 90 and 92 held the accuracy in the plain
// interval.
TEST(OutOfFoldInterval, CountsTwoThirdsOfTheImages) {
  const Interval out_of_fold = out_of_fold_interval(15, 150), fewer = wilson_interval(10, 100);
  EXPECT_DOUBLE_EQ(out_of_fold.low, fewer.low);
  EXPECT_DOUBLE_EQ(out_of_fold.high, fewer.high);
  EXPECT_EQ(out_of_fold_interval(0, 0).high, 1);
}

TEST(RunSummary, WidensTheIntervalWhereFoldsValidate) {
  RunRecord run = sample_run(3);
  const Totals& valid = summary_of(run).kept->valid;
  const Interval plain = summary_of(run).top1_interval;
  EXPECT_EQ(plain.low, wilson_interval(valid.top1, valid.count).low);
  run.details.out_of_fold.is_validation = true;
  const Interval wider = summary_of(run).top1_interval;
  EXPECT_EQ(wider.low, out_of_fold_interval(valid.top1, valid.count).low);
  EXPECT_LT(wider.low, plain.low);
  EXPECT_GT(wider.high, plain.high);
}

// 10 steps of `step` seconds an epoch, then a validation.
RunRecord timed_run(int num_epochs, double step, double validation) {
  RunRecord run;
  double time = run.start.time = 1e9;
  for (int epoch = 1; epoch <= num_epochs; ++epoch) {
    for (int i = 0; i < 10; ++i) run.steps.emplace_back().time = time += step;
    run.epochs.emplace_back().time = time += validation;
  }
  return run;
}

TEST(PlausibleSilence, IsLongAgainstTheRunsOwnGaps) {
  EXPECT_EQ(plausible_silence(timed_run(3, 0.06, 0.1)), 600) << "at least ten minutes";
  EXPECT_EQ(plausible_silence(timed_run(3, 100, 100)), 2000) << "slow steps";
  EXPECT_EQ(plausible_silence(timed_run(3, 1, 1000)), 3000) << "a long validation";
  RunRecord first = timed_run(1, 100, 1);
  first.epochs.clear();
  first.steps.back().time += 4000;
  EXPECT_EQ(last_time(first), first.steps.back().time);
  EXPECT_GE(plausible_silence(first), 5000) << "how long validation takes is not known yet";
  EXPECT_GE(plausible_silence(timed_run(0, 1, 1)), 3600) << "nor how long a step takes";
}

// timed_run(), which stopped at the end, and went on a day later.
RunRecord resumed_run() {
  RunRecord run = timed_run(3, 1, 100);
  const double end = last_time(run);
  run.interruptions.push_back(
      {.time = end + 86'400, .checkpoint_time = end - 50, .last_seen = end});
  run.steps.emplace_back().time = end + 86'401;
  return run;
}

TEST(PlausibleSilence, DoesNotCountThePauseBeforeARunWentOn) {
  const RunRecord run = resumed_run();
  EXPECT_EQ(plausible_silence(run), 600);
  RunRecord just_resumed = run;
  just_resumed.steps.pop_back();
  EXPECT_EQ(last_time(just_resumed), run.interruptions[0].time);
}

TEST(RunSummary, LeavesThePauseOutOfTheTime) {
  EXPECT_DOUBLE_EQ(summary_of(resumed_run()).seconds, 331);
  EXPECT_EQ(idle_seconds(timed_run(3, 1, 100)), 0);
}

TEST(ClassScores, WorstRecallComesFirst) {
  const auto scores = class_scores(matrix_of({{8, 2, 0}, {6, 4, 0}, {0, 0, 0}}));
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].label, 1);
  EXPECT_DOUBLE_EQ(scores[0].recall(), 0.4);
  EXPECT_DOUBLE_EQ(scores[0].precision(), 4.0 / 6);
  EXPECT_EQ(scores[1].label, 0);
  EXPECT_EQ(scores[2].label, 2);  // has no images, so nothing is known
  EXPECT_TRUE(std::isnan(scores[2].recall()));
  EXPECT_TRUE(class_scores({}).empty());
}

TEST(WorstConfusions, AreBetweenDifferentClassesMostFrequentFirst) {
  const auto pairs = worst_confusions(matrix_of({{90, 2, 0}, {6, 4, 1}, {0, 0, 0}}), 2);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].truth, 1);
  EXPECT_EQ(pairs[0].guess, 0);
  EXPECT_EQ(pairs[0].images, 6);
  EXPECT_EQ(pairs[1].images, 2);
}

TEST(Condensed, KeepsTheClassesWithMostErrorsAndEveryImage) {
  ConfusionMatrix matrix{1000, {}};
  matrix.counts.assign(1'000'000, 0);
  for (std::size_t label = 0; label < 1000; ++label) matrix.counts[label * 1000 + label] = 10;
  matrix.counts[7 * 1000 + 900] = 50;
  const CondensedMatrix small = condensed(matrix, 40);
  EXPECT_EQ(small.counts.num_classes, 40);
  EXPECT_EQ(small.num_others, 961);
  ASSERT_EQ(small.labels.size(), 39U);
  EXPECT_NE(std::find(small.labels.begin(), small.labels.end(), 7), small.labels.end());
  const auto last = std::find(small.labels.begin(), small.labels.end(), 900);
  ASSERT_NE(last, small.labels.end());
  EXPECT_EQ(std::accumulate(small.counts.counts.begin(), small.counts.counts.end(), 0LL), 10'050);
  EXPECT_EQ(small.counts.at(39, 39), 9610);
  EXPECT_EQ(condensed(matrix_of({{1, 2}, {3, 4}}), 40).counts.counts,
            (std::vector<std::int64_t>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace kiln
