#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace kiln {
namespace {

struct Images {
  int num_classes = 0;
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  LabeledLogits all() const { return {logits, labels, num_classes}; }
  LabeledLogits part(std::size_t begin, std::size_t end) const {
    const auto width = static_cast<std::size_t>(num_classes);
    return {std::span(logits).subspan(begin * width, (end - begin) * width),
            std::span(labels).subspan(begin, end - begin), num_classes};
  }
};

// Labels are drawn from the softmax of random logits, which are then multiplied by `temperature`.
Images drawn_images(int count, int num_classes, double temperature) {
  Images images{num_classes, {}, {}};
  RandomSequence random({1, static_cast<std::uint64_t>(num_classes)});
  for (int i = 0; i < count; ++i) {
    std::vector<double> logits;
    double sum = 0;
    for (int c = 0; c < num_classes; ++c) {
      logits.push_back(8 * random.uniform());
      sum += std::exp(logits.back());
    }
    double left = random.uniform() * sum;
    std::int32_t label = 0;
    while (label + 1 < num_classes &&
           (left -= std::exp(logits[static_cast<std::size_t>(label)])) > 0)
      ++label;
    images.labels.push_back(label);
    for (const double logit : logits)
      images.logits.push_back(static_cast<float>(logit * temperature));
  }
  return images;
}

double cross_entropy(const LabeledLogits& images, double temperature) {
  double sum = 0;
  const auto width = static_cast<std::size_t>(images.num_classes);
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    double weight = 0;
    for (std::size_t c = 0; c < width; ++c)
      weight += std::exp(images.logits[i * width + c] / temperature);
    sum += std::log(weight) -
           images.logits[i * width + static_cast<std::size_t>(images.labels[i])] / temperature;
  }
  return sum;
}

TEST(Temperature, IsThatOfTheSoftmaxTheLabelsWereDrawnFrom) {
  for (const double known : {0.5, 1.0, 1.7, 6.0})
    EXPECT_NEAR(fit_temperature(drawn_images(4000, 10, known).all()) / known, 1, 0.05) << known;
}

TEST(Temperature, MinimizesTheCrossEntropy) {
  const Images images = drawn_images(200, 3, 2.5);
  const double found = fit_temperature(images.all());
  const double lowest = cross_entropy(images.all(), found);
  EXPECT_GT(cross_entropy(images.all(), found * 1.01), lowest);
  EXPECT_GT(cross_entropy(images.all(), found / 1.01), lowest);
}

TEST(Temperature, IsTheLowestOfASearchThroughAllTemperatures) {
  struct Case {
    int count, num_classes;
    double known;
  };
  constexpr int kSteps = 2000;
  const double ratio = std::pow(kHighestTemperature / kLowestTemperature, 1.0 / kSteps);
  for (const auto& [count, num_classes, known] :
       {Case{50, 2, 0.3}, Case{300, 10, 1.0}, Case{200, 3, 2.5}, Case{100, 5, 8.0}}) {
    const Images images = drawn_images(count, num_classes, known);
    double best = 0, lowest = std::numeric_limits<double>::infinity();
    for (int step = 0; step <= kSteps; ++step) {
      const double temperature = kLowestTemperature * std::pow(ratio, step);
      const double loss = cross_entropy(images.all(), temperature);
      if (loss >= lowest) continue;
      lowest = loss;
      best = temperature;
    }
    const double found = fit_temperature(images.all());
    EXPECT_NEAR(found / best, 1, 1.01 * (ratio - 1)) << known;
    EXPECT_LE(cross_entropy(images.all(), found), lowest * (1 + 1e-9)) << known;
  }
}

TEST(Temperature, IsOneWhereNothingCanBeLearned) {
  EXPECT_EQ(fit_temperature({{}, {}, 10}), 1);
  const std::vector<float> right = {3, 1, 0, 0, 2, 0}, one_class = {5, -3};
  const std::vector<std::int32_t> labels = {0, 1}, zeros = {0, 0};
  EXPECT_EQ(fit_temperature({right, labels, 3}), 1) << "all are right";
  EXPECT_EQ(fit_temperature({one_class, zeros, 1}), 1) << "a single class";
}

TEST(Temperature, StaysWithinItsLimits) {
  const std::vector<float> logits = {3, 1, 0};
  const std::vector<std::int32_t> wrong = {1};
  EXPECT_NEAR(fit_temperature({logits, wrong, 3}), kHighestTemperature, 1e-3) << "one wrong image";
  // The wrong image is all but undecided, and the right ones are nearly so.
  std::vector<float> close;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 1000; ++i) {
    close.insert(close.end(), {0.001F, 0});
    labels.push_back(i == 0 ? 1 : 0);
  }
  EXPECT_NEAR(fit_temperature({close, labels, 2}), kLowestTemperature, 1e-5);
}

TEST(Temperature, TakesLargeLogits) {
  Images images = drawn_images(500, 4, 1);
  for (float& logit : images.logits) logit = logit * 3 + 1e4F;
  EXPECT_NEAR(fit_temperature(images.all()), 3, 0.5);
}

TEST(Temperature, RefusesLogitsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    Images images = drawn_images(10, 3, 1);
    images.logits[7] = bad;
    try {
      fit_temperature(images.all());
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFailedToCompleteOperation);
    }
  }
}

// The other ranks' sums are added as recorded passes of the same fit.
TEST(Temperature, IsTheSameWhateverPartOfTheImagesARankHas) {
  const Images images = drawn_images(300, 5, 1.5);
  const double alone = fit_temperature(images.all());
  EXPECT_EQ(fit_temperature(images.all()), alone) << "to the bit";
  // Every pass's sums over both parts, taken from the fit of the whole.
  std::vector<std::array<double, 3>> whole;
  fit_temperature(images.all(), [&](const auto& mine) {
    whole.push_back(mine);
    return mine;
  });
  EXPECT_LE(whole.size(), 12U) << "passes over the logits";
  std::vector<std::array<double, 3>> sums;
  for (const auto& [begin, end] : {std::pair{0, 90}, std::pair{90, 300}}) {
    std::size_t pass = 0;
    const double found =
        fit_temperature(images.part(static_cast<std::size_t>(begin), static_cast<std::size_t>(end)),
                        [&](const std::array<double, 3>& mine) {
                          if (sums.size() == pass) sums.push_back({});
                          for (std::size_t i = 0; i < mine.size(); ++i)
                            sums[pass].at(i) += mine.at(i);
                          return whole.at(pass++);
                        });
    EXPECT_EQ(found, alone);
    EXPECT_EQ(pass, whole.size());
  }
  for (std::size_t pass = 0; pass < whole.size(); ++pass)
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(sums[pass].at(i), whole[pass].at(i), 1e-8 * (1 + std::abs(whole[pass].at(i))));
}

TEST(CountAnswers, UsesTheCalibratedConfidence) {
  const std::vector<float> logits = {std::log(4.0F), 0, 0, std::log(9.0F)};
  const std::vector<std::int32_t> labels = {0, 0};
  std::vector<AnswerBin> bins = empty_answer_bins();
  count_answers({logits, labels, 2}, 0.5, bins);
  std::erase_if(bins, [](const AnswerBin& bin) { return bin.images == 0; });
  ASSERT_EQ(bins.size(), 2U);
  EXPECT_EQ(bins[0], (AnswerBin{0.941, 1, 1})) << "16 / 17";
  EXPECT_EQ(bins[1], (AnswerBin{0.987, 1, 0})) << "81 / 82";
}

TEST(CalibrationSample, HoldsAllImagesThatFit) {
  const CalibrationSample sample(50'000, 100);
  for (std::uint64_t i = 0; i < 50'000; i += 1000) EXPECT_TRUE(sample.holds(i));
}

TEST(CalibrationSample, HoldsAShareOfMoreImages) {
  const CalibrationSample sample(1 << 20, 160);
  int held = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) held += sample.holds(i) ? 1 : 0;
  EXPECT_NEAR(held, 1000, 100);
}

}  // namespace
}  // namespace kiln
