#include "record/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace kiln {
namespace {

// Adds an image with these probabilities; its `top` is sorted from them.
void add(Evaluation& evaluation, int truth, const std::vector<float>& probabilities) {
  std::vector<std::int32_t> top(probabilities.size());
  std::iota(top.begin(), top.end(), 0);
  std::stable_sort(top.begin(), top.end(), [&](std::int32_t a, std::int32_t b) {
    return probabilities[static_cast<std::size_t>(a)] > probabilities[static_cast<std::size_t>(b)];
  });
  evaluation.add({truth, top, probabilities});
}

// Three classes and six images; class 3 has neither images nor predictions.
//
//   image  truth  predicted  confidence  second
//     0      0        0         0.75       1
//     1      0        0         0.50       2
//     2      0        1         0.75       0
//     3      1        1         0.25       0, 2, 3 (equal)
//     4      1        2         0.875      0
//     5      2        2         0.875      0
Evaluation six_images() {
  Evaluation evaluation(4, 2);
  add(evaluation, 0, {0.75F, 0.25F, 0, 0});
  add(evaluation, 0, {0.5F, 0.125F, 0.375F, 0});
  add(evaluation, 0, {0.25F, 0.75F, 0, 0});
  const std::vector<std::int32_t> top = {1, 0};
  const std::vector<float> equal = {0.25F, 0.25F, 0.25F, 0.25F};
  evaluation.add({1, top, equal});
  add(evaluation, 1, {0.125F, 0, 0.875F, 0});
  add(evaluation, 2, {0.125F, 0, 0.875F, 0});
  return evaluation;
}

TEST(Evaluation, AgreesWithATableMadeByHand) {
  const Evaluation evaluation = six_images();
  EXPECT_EQ(evaluation.totals().count, 6);
  EXPECT_EQ(evaluation.totals().top1, 4);
  EXPECT_EQ(evaluation.totals().top5, 5) << "image 2 is right in the second place";
  const double impossible = -std::log(std::numeric_limits<float>::min());
  EXPECT_NEAR(evaluation.totals().loss_sum,
              std::log(1 / 0.75) + std::log(2) + 2 * std::log(4) + impossible + std::log(1 / 0.875),
              1e-5);
  const std::vector<ClassScore>& classes = evaluation.classes();
  ASSERT_EQ(classes.size(), 4U);
  EXPECT_DOUBLE_EQ(classes[0].recall(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(classes[0].precision(), 1);
  EXPECT_DOUBLE_EQ(classes[0].f1(), 0.8);
  EXPECT_DOUBLE_EQ(classes[1].recall(), 0.5);
  EXPECT_DOUBLE_EQ(classes[1].precision(), 0.5);
  EXPECT_DOUBLE_EQ(classes[1].f1(), 0.5);
  EXPECT_DOUBLE_EQ(classes[2].f1(), 2.0 / 3);
  EXPECT_TRUE(std::isnan(classes[3].f1()));
  EXPECT_EQ(classes[1].images, 2);
  EXPECT_DOUBLE_EQ(macro_recall(classes), (2.0 / 3 + 0.5 + 1) / 3);
  EXPECT_DOUBLE_EQ(macro_f1(classes), (0.8 + 0.5 + 2.0 / 3) / 3);
  EXPECT_EQ(evaluation.confusion().counts,
            (std::vector<std::int64_t>{2, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
}

TEST(Evaluation, CountsAClassThatIsOnlyPredictedInF1AndNotInRecall) {
  Evaluation evaluation(3, 1);
  add(evaluation, 0, {1, 0, 0});
  add(evaluation, 0, {0, 1, 0});
  EXPECT_DOUBLE_EQ(macro_recall(evaluation.classes()), 0.5);
  EXPECT_DOUBLE_EQ(macro_f1(evaluation.classes()), (2.0 / 3 + 0) / 2);
}

TEST(Evaluation, KeepsNoMatrixOfTooManyClasses) {
  const int num_classes = static_cast<int>(kMaxConfusionClasses) + 1;
  Evaluation evaluation(num_classes, 5);
  std::vector<float> probabilities(static_cast<std::size_t>(num_classes));
  probabilities[7] = 1;
  add(evaluation, 7, probabilities);
  EXPECT_TRUE(evaluation.confusion().empty());
  EXPECT_EQ(evaluation.classes()[7].hits, 1);
}

TEST(Evaluation, RefusesClassesOutOfRange) {
  Evaluation evaluation(2, 1);
  const std::vector<float> two = {0.5F, 0.5F}, three = {0.5F, 0.5F, 0};
  const std::vector<std::int32_t> top = {0}, unknown = {2}, none;
  EXPECT_THROW(evaluation.add({2, top, two}), InternalError);
  EXPECT_THROW(evaluation.add({-1, top, two}), InternalError);
  EXPECT_THROW(evaluation.add({0, unknown, two}), InternalError);
  EXPECT_THROW(evaluation.add({0, none, two}), InternalError);
  EXPECT_THROW(evaluation.add({0, top, three}), InternalError);
  EXPECT_EQ(evaluation.totals().count, 0);
}

TEST(Calibration, HasFifteenBinsClosedAbove) {
  const auto bins = six_images().calibration();
  ASSERT_EQ(bins.size(), 15U);
  EXPECT_EQ(bins[3].images, 1) << "0.25 lies between 3/15 and 4/15";
  EXPECT_EQ(bins[7].images, 1);
  EXPECT_EQ(bins[11].images, 2) << "0.75 lies between 11/15 and 12/15";
  EXPECT_EQ(bins[11].right, 1);
  EXPECT_DOUBLE_EQ(bins[11].mean_confidence(), 0.75);
  EXPECT_DOUBLE_EQ(bins[11].accuracy(), 0.5);
  EXPECT_EQ(bins[13].images, 2);
  EXPECT_TRUE(std::isnan(bins[0].accuracy()));
  Evaluation bounds(2, 1);
  add(bounds, 0, {1, 0});
  EXPECT_EQ(bounds.calibration()[14].images, 1);
}

TEST(Calibration, ErrorIsTheWeightedDistanceToAccuracy) {
  const Evaluation evaluation = six_images();
  // 0.25: right; 0.5: right; twice 0.75: one right; twice 0.875: one right.
  EXPECT_NEAR(expected_calibration_error(evaluation.calibration()),
              (0.75 + 0.5 + 2 * 0.25 + 2 * 0.375) / 6, 1e-12);
  EXPECT_TRUE(std::isnan(expected_calibration_error(Evaluation(2, 1).calibration())));
}

TEST(AnswerBins, HoldEachConfidenceFromTheirBoundOn) {
  std::vector<AnswerBin> bins = empty_answer_bins();
  EXPECT_EQ(bins.front().from, 0);
  EXPECT_TRUE(std::is_sorted(bins.begin(), bins.end(), [](const AnswerBin& a, const AnswerBin& b) {
    return a.from <= b.from;
  })) << "no two are equal";
  EXPECT_LT(bins.back().from, 1) << "as is the confidence 1";
  for (const double bound : {0.0, 0.8, 0.99}) {
    std::vector<AnswerBin> counted = bins;
    count_answer(bound, true, counted);
    count_answer(std::nextafter(bound, 0), true, counted);
    EXPECT_EQ(answer_rate(counted, bound).answered, bound == 0 ? 2 : 1) << bound;
  }
  count_answer(1, true, bins);
  EXPECT_EQ(bins.back().images, 1);
}

TEST(AnswerRate, GivesTheShareAnsweredAndTheAccuracyOfTheAnswers) {
  const Evaluation evaluation = six_images();
  const AnswerRate all = answer_rate(evaluation.answers(), 0);
  EXPECT_EQ(all.answered, 6);
  EXPECT_EQ(all.right, 4);
  const AnswerRate some = answer_rate(evaluation.answers(), 0.5);
  EXPECT_DOUBLE_EQ(some.threshold, 0.5);
  EXPECT_DOUBLE_EQ(some.share(), 5.0 / 6);
  EXPECT_DOUBLE_EQ(some.accuracy(), 0.6);
  EXPECT_EQ(some.interval().low, wilson_interval(3, 5).low);
  EXPECT_DOUBLE_EQ(answer_rate(evaluation.answers(), 0.5004).threshold, 0.501);
  EXPECT_EQ(answer_rate(evaluation.answers(), 0.5004).answered, 4);
  const AnswerRate none = answer_rate(evaluation.answers(), 0.9);
  EXPECT_EQ(none.share(), 0);
  EXPECT_TRUE(std::isnan(none.accuracy()));
}

TEST(AnswerRateFor, TakesTheLowestThresholdThatIsShownToBeRightOftenEnough) {
  // 400 right ones at 0.9, then 100 at 0.8 of which 90 are right, then 100 wrong ones at 0.3. Of
  // the first 500, 98.0 % are right (95 % interval 96.4 to 98.9 %), of 400 all (99.05 to 100 %).
  std::vector<AnswerBin> bins = empty_answer_bins();
  for (int i = 0; i < 400; ++i) count_answer(0.9001, true, bins);
  for (int i = 0; i < 100; ++i) count_answer(0.8, i < 90, bins);
  for (int i = 0; i < 100; ++i) count_answer(0.3, false, bins);
  const auto at_96 = answer_rate_for(bins, 0.96);
  ASSERT_TRUE(at_96.has_value());
  EXPECT_DOUBLE_EQ(at_96->threshold, 0.8);
  EXPECT_EQ(at_96->answered, 500);
  EXPECT_DOUBLE_EQ(at_96->share(), 500.0 / 600);
  EXPECT_DOUBLE_EQ(answer_rate_for(bins, 0.98)->threshold, 0.9);
  const auto at_99 = answer_rate_for(bins, 0.99);
  ASSERT_TRUE(at_99.has_value());
  EXPECT_DOUBLE_EQ(at_99->threshold, 0.9);
  EXPECT_EQ(answer_rate_for(bins, 0.5)->answered, 600);
  // Without the empty bins, as a file keeps them, it is the same.
  std::erase_if(bins, [](const AnswerBin& bin) { return bin.images == 0; });
  EXPECT_EQ(answer_rate_for(bins, 0.96)->answered, 500);
  bins.back().right = 0;
  EXPECT_FALSE(answer_rate_for(bins, 0.98).has_value());
  EXPECT_FALSE(answer_rate_for(std::vector<AnswerBin>(), 0.5).has_value());
}

struct Answer {
  double confidence = 0;
  bool is_right = false;
};

// Most are sure, and as often right as they are sure.
std::vector<Answer> drawn_answers(int count) {
  RandomSequence random({3, static_cast<std::uint64_t>(count)});
  std::vector<Answer> answers;
  for (int i = 0; i < count; ++i) {
    const double confidence = 1 - std::pow(random.uniform(), 4);
    answers.push_back({confidence, random.uniform() < confidence});
  }
  return answers;
}

// What is answered from `threshold` on, counted one by one.
AnswerRate counted_rate(const std::vector<Answer>& answers, double threshold) {
  AnswerRate rate{.threshold = threshold, .images = static_cast<std::int64_t>(answers.size())};
  for (const Answer& answer : answers) {
    if (answer.confidence < threshold) continue;
    ++rate.answered;
    rate.right += answer.is_right ? 1 : 0;
  }
  return rate;
}

TEST(AnswerRateFor, AnswersAsManyAsCountingOneByOneAtEveryBound) {
  for (const int count : {40, 1000, 20'000}) {
    const std::vector<Answer> answers = drawn_answers(count);
    std::vector<AnswerBin> bins = empty_answer_bins();
    std::vector<AnswerRate> counted;
    for (const AnswerBin& bin : bins) counted.push_back(counted_rate(answers, bin.from));
    for (const Answer& answer : answers) count_answer(answer.confidence, answer.is_right, bins);
    for (const double wanted : {0.9, 0.95, 0.98, 0.99, 0.999}) {
      std::int64_t most = 0;
      for (const AnswerRate& rate : counted)
        if (rate.answered > 0 && rate.interval().low >= wanted)
          most = std::max(most, rate.answered);
      const auto found = answer_rate_for(bins, wanted);
      ASSERT_EQ(found.has_value(), most > 0) << count << " " << wanted;
      if (!found) continue;
      const AnswerRate there = counted_rate(answers, found->threshold);
      EXPECT_EQ(found->answered, most) << count << " " << wanted;
      EXPECT_EQ(found->answered, there.answered) << count << " " << wanted;
      EXPECT_EQ(found->right, there.right) << count << " " << wanted;
      EXPECT_EQ(found->images, count);
      EXPECT_GE(found->accuracy(), wanted);
    }
  }
}

TEST(McNemar, IsExactForFewDifferences) {
  // Of 10 images 1 or none goes to one side: 2 * (1 + 10) / 2^10.
  const McNemarTest few = mcnemar_test({100, 9, 1, 3});
  EXPECT_TRUE(few.is_exact);
  EXPECT_DOUBLE_EQ(few.p_value, 22.0 / 1024);
  EXPECT_DOUBLE_EQ(mcnemar_test({0, 1, 9, 0}).p_value, 22.0 / 1024);
  EXPECT_EQ(mcnemar_test({50, 4, 4, 0}).p_value, 1);
  EXPECT_EQ(mcnemar_test({}).p_value, 1);
}

TEST(McNemar, UsesChiSquareForMany) {
  // A. Agresti, Categorical Data Analysis: 86 and 150 of 1600, (|86 - 150| - 1)^2 / 236 = 16.8178.
  const McNemarTest many = mcnemar_test({794, 150, 86, 570});
  EXPECT_FALSE(many.is_exact);
  EXPECT_NEAR(many.statistic, 16.8178, 1e-4);
  EXPECT_NEAR(many.p_value, 4.115e-5, 1e-7);
  EXPECT_EQ(mcnemar_test({0, 20, 20, 0}).p_value, 1);
  EXPECT_TRUE(mcnemar_test({0, 12, 12, 0}).is_exact);
  EXPECT_FALSE(mcnemar_test({0, 12, 13, 0}).is_exact);
}

TEST(McNemar, CountsPairs) {
  PairedAnswers answers;
  for (int i = 0; i < 10; ++i) answers.add(i % 2 == 0, i % 3 == 0);
  EXPECT_EQ(answers.both, 2);
  EXPECT_EQ(answers.only_first, 3);
  EXPECT_EQ(answers.only_second, 2);
  EXPECT_EQ(answers.neither, 3);
  EXPECT_EQ(answers.images(), 10);
}

}  // namespace
}  // namespace kiln
