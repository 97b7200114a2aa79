#include "run/prepare/class_counts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace kiln {
namespace {

Prediction predicted(std::int32_t label, std::int32_t guess) {
  return {.sample = 0, .label = label, .predicted = guess};
}

// Class 0: 3 images, 2 of them right, 3 predictions. Class 1: 1 image, wrong. Class 2: no image,
// one prediction. Class 3: neither.
const std::vector<Prediction> kPredictions = {predicted(0, 0), predicted(0, 0), predicted(0, 2),
                                              predicted(1, 0)};

TEST(ClassCounts, AreImagesPredictionsAndHits) {
  EXPECT_EQ(class_counts(kPredictions, 4),
            (std::vector<double>{3, 3, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(ClassCounts, GiveMeansOverTheClassesThatHaveImages) {
  const MacroScores scores = macro_scores(class_counts(kPredictions, 4));
  EXPECT_DOUBLE_EQ(scores.recall, (2.0 / 3 + 0) / 2);
  EXPECT_DOUBLE_EQ(scores.f1, (2 * 2.0 / 6 + 0 + 0) / 3);  // class 2 was predicted
}

TEST(ClassCounts, OfRanksAddUp) {
  std::vector<double> sum = class_counts({kPredictions.begin(), kPredictions.begin() + 1}, 4);
  const std::vector<double> other = class_counts({kPredictions.begin() + 1, kPredictions.end()}, 4);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  EXPECT_EQ(sum, class_counts(kPredictions, 4));
}

double mean_weight(const std::vector<double>& weights, const std::vector<long long>& counts) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    sum += weights[i] * static_cast<double>(counts[i]);
  return sum / static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
}

TEST(ClassWeights, HaveTheMeanOneOverImages) {
  const std::vector<long long> counts = {90, 9, 1};
  EXPECT_TRUE(weights_of_classes(ClassWeights::kNone, counts).empty());
  const std::vector<double> balanced = weights_of_classes(ClassWeights::kBalanced, counts);
  const std::vector<double> root = weights_of_classes(ClassWeights::kSqrt, counts);
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_DOUBLE_EQ(balanced[i], 100 / (3.0 * static_cast<double>(counts[i])));
  EXPECT_NEAR(mean_weight(balanced, counts), 1, 1e-12);
  EXPECT_NEAR(mean_weight(root, counts), 1, 1e-12);
  EXPECT_NEAR(root[2] / root[0], std::sqrt(90.0), 1e-9);
  EXPECT_NEAR(root[1] / root[0], std::sqrt(10.0), 1e-9);
}

TEST(ClassWeights, PassOverClassesWithoutImages) {
  const std::vector<double> weights = weights_of_classes(ClassWeights::kBalanced, {30, 0, 10});
  EXPECT_DOUBLE_EQ(weights[0], 40 / (2.0 * 30));
  EXPECT_DOUBLE_EQ(weights[1], 1);
  EXPECT_DOUBLE_EQ(weights[2], 40 / (2.0 * 10));
}

}  // namespace
}  // namespace kiln
