#include "record/label_scores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln {
namespace {

// tests/parity/labels_parity.py compares more with scikit-learn.
class LabelScores : public testing::Test {
 protected:
  const std::vector<std::vector<int>> sets_ = {{}, {0}, {0, 1}};
  const std::vector<float> logits_ = {3, 1, -4, 2, -1, -4, 1, 2, -4, -1, -2, -4};
  const std::vector<std::int32_t> labels_ = {1, 0, 2, 1};
  const LabelAnswers answers_{logits_, labels_, sets_, 3};
};

TEST_F(LabelScores, AveragePrecisionIsScikitLearns) {
  // Of 3, 2, 1, -1 the first, third and last are there.
  EXPECT_NEAR(average_precision(ranked_answers(answers_, 0)), (1 + 2.0 / 3 + 3.0 / 4) / 3, 1e-12);
  EXPECT_NEAR(average_precision(ranked_answers(answers_, 1)), 1, 1e-12);
  EXPECT_TRUE(std::isnan(average_precision(ranked_answers(answers_, 2))));
  const std::vector<float> equal = {1, 1, 1, 1};
  const LabelAnswers tied{equal, labels_, sets_, 1};
  EXPECT_NEAR(average_precision(ranked_answers(tied, 0)), 0.75, 1e-12);
}

TEST_F(LabelScores, MeansAreOverClassesThatAreThereOrPredicted) {
  const LabelMetrics metrics = metrics_of(answers_);
  const double first = (1 + 2.0 / 3 + 3.0 / 4) / 3;
  EXPECT_NEAR(metrics.mean_average_precision, (first + 1) / 2, 1e-12);
  // Predicted are three of class 0 (two right) and two of class 1 (one right).
  EXPECT_NEAR(metrics.macro_f1, (4.0 / 6 + 2.0 / 3) / 2, 1e-12);
  EXPECT_NEAR(metrics.micro_f1, 6.0 / 9, 1e-12);
}

TEST_F(LabelScores, TheBestThresholdDividesEqualAnswersNever) {
  const std::vector<LabelAnswer> ranked = ranked_answers(answers_, 0);
  EXPECT_EQ(best_by_f1(ranked), 4U);
  EXPECT_EQ(best_by_f1(ranked_answers(answers_, 2)), 0U);
  const ClassScore score = score_of(ranked, 3);
  EXPECT_EQ(score.images, 3);
  EXPECT_EQ(score.guesses, 3);
  EXPECT_EQ(score.hits, 2);
}

TEST_F(LabelScores, JudgesWhatIsPredictedFromThresholds) {
  const PredictedLabels judged = predicted_labels(answers_, std::vector<LabelCalibration>(3), 2);
  EXPECT_EQ(judged.scores[0].guesses, 3);
  EXPECT_EQ(judged.scores[1].hits, 1);
  ASSERT_EQ(judged.extra.size(), 2U);
  EXPECT_EQ(judged.extra[0].image, 1U);
  EXPECT_EQ(judged.extra[0].label, 0);
  EXPECT_NEAR(judged.extra[0].confidence, 1 / (1 + std::exp(-2.0)), 1e-9);
  ASSERT_EQ(judged.missed.size(), 1U);
  EXPECT_EQ(judged.missed[0].image, 3U);
}

TEST_F(LabelScores, HavePrecisionByRecall) {
  const std::vector<double> curve = precision_by_recall(ranked_answers(answers_, 0));
  ASSERT_EQ(curve.size(), 21U);
  EXPECT_EQ(curve[0], 1);
  EXPECT_EQ(curve[6], 1);  // one of three
  EXPECT_EQ(curve[7], 0.75);
  EXPECT_EQ(curve[20], 0.75);
  EXPECT_TRUE(precision_by_recall(ranked_answers(answers_, 2)).empty());
}

TEST_F(LabelScores, CountPairsOfClasses) {
  const auto pairs = label_pairs(answers_, std::vector<LabelCalibration>(3), 5);
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].first, 0);
  EXPECT_EQ(pairs[0].second, 1);
  EXPECT_EQ(pairs[0].images, 1);
  EXPECT_EQ(pairs[0].predicted, 2);
}

TEST_F(LabelScores, GivesReportsTablesAndPictures) {
  Calibration calibration;
  calibration.labels.resize(3);
  const auto show = [](const LabelMistake& mistake) -> JudgedImage {
    return {std::to_string(mistake.image), mistake.label, mistake.label, mistake.confidence, {}};
  };
  const auto [scores, details] = label_results(answers_, calibration, {"a", "b", "c"}, show);
  EXPECT_EQ(scores.size(), 3U);
  ASSERT_EQ(details.tables.size(), 2U);
  EXPECT_EQ(details.tables[0].rows.size(), 3U);
  EXPECT_EQ(details.tables[0].curves.size(), 3U);
  EXPECT_EQ(details.tables[0].rows[2][0], "c");  // no image has it
  ASSERT_EQ(details.pictures.size(), 2U);
  EXPECT_EQ(details.pictures[1].images[0].file, "3");
  EXPECT_EQ(details.figures.front().name, "mean_average_precision");
  EXPECT_TRUE(details.verdict.has_learned);
}

}  // namespace
}  // namespace kiln
