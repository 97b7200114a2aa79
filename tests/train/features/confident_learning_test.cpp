#include "train/features/confident_learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace kiln {
namespace {

// Two classes; the probability of the first one is given.
struct TwoClasses {
  std::vector<float> probabilities;
  std::vector<std::int32_t> labels;
  void add(std::int32_t label, float of_first) {
    labels.push_back(label);
    probabilities.push_back(of_first);
    probabilities.push_back(1 - of_first);
  }
  JudgedLabels judged() const { return {probabilities, labels, 2}; }
};

TEST(ConfidentLearning, FindsTurnedLabelsInOrderOfSelfConfidence) {
  TwoClasses images;
  for (int i = 0; i < 10; ++i) images.add(i % 2, i % 2 == 0 ? 0.9F : 0.1F);
  images.add(0, 0.2F);
  images.add(0, 0.05F);
  images.add(1, 0.9F);
  const LabelNoise noise = estimate_label_noise(images.judged());
  EXPECT_EQ(noise.images(0), 7);
  EXPECT_EQ(noise.images(1), 6);
  EXPECT_EQ(noise.wrong(0), 2);
  EXPECT_EQ(noise.missing(1), 2);
  EXPECT_EQ(noise.wrong(1), 1);
  EXPECT_EQ(probably_wrong(images.judged(), noise), (std::vector<std::uint32_t>{11, 12, 10}));
}

TEST(ConfidentLearning, CleanLabelsAreNotDoubted) {
  TwoClasses images;
  for (int i = 0; i < 20; ++i) images.add(i % 2, i % 2 == 0 ? 0.8F : 0.3F);
  const LabelNoise noise = estimate_label_noise(images.judged());
  EXPECT_EQ(noise.wrong(0) + noise.wrong(1), 0);
  EXPECT_TRUE(probably_wrong(images.judged(), noise).empty());
}

TEST(ConfidentLearning, CountsAddUpToTheImagesOfEachLabel) {
  const std::size_t num_classes = 7, num_images = 100;
  std::vector<float> probabilities;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < num_images; ++i) {
    labels.push_back(static_cast<std::int32_t>(i * i % (num_classes - 1)));  // none of the last
    std::vector<float> row(num_classes, 1);
    row[i * 5 % num_classes] += static_cast<float>(i % 11);
    const float sum = std::accumulate(row.begin(), row.end(), 0.0F);
    for (const float value : row) probabilities.push_back(value / sum);
  }
  const JudgedLabels judged{probabilities, labels, num_classes};
  const LabelNoise noise = estimate_label_noise(judged);
  for (std::size_t c = 0; c < num_classes; ++c)
    EXPECT_EQ(noise.images(c), std::count(labels.begin(), labels.end(), static_cast<int>(c))) << c;
  for (const std::uint32_t i : probably_wrong(judged, noise))
    EXPECT_NE(judged.best(i), labels[i]) << i;
}

TEST(ConfidentLearning, OneClassAndNoImages) {
  const std::vector<float> probabilities(3, 1.0F);
  const std::vector<std::int32_t> labels(3, 0);
  const JudgedLabels judged{probabilities, labels, 1};
  EXPECT_TRUE(probably_wrong(judged, estimate_label_noise(judged)).empty());
  const JudgedLabels none{{}, {}, 2};
  EXPECT_TRUE(probably_wrong(none, estimate_label_noise(none)).empty());
}

}  // namespace
}  // namespace kiln
