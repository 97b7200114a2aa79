#include "tools/audit/image_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace kiln {
namespace {

constexpr std::size_t kFeatures = 5, kImages = 100;

// Two classes around a direction each; their images alternate.
struct TwoClouds {
  std::vector<float> features;
  std::vector<std::int32_t> labels;

  TwoClouds() {
    RandomSequence random{3};
    for (std::size_t i = 0; i < kImages; ++i) {
      labels.push_back(static_cast<std::int32_t>(i % 2));
      for (std::size_t d = 0; d < kFeatures; ++d)
        features.push_back(static_cast<float>((d == i % 2 ? 5 : 0) + random.uniform()));
    }
  }
  FeatureRows view() const { return {features, labels, kFeatures, 2}; }
};

TEST(Outliers, AnImageLikeNoOtherOfItsClassIsOne) {
  TwoClouds clouds;
  EXPECT_TRUE(find_outliers(clouds.view()).empty());
  const std::size_t odd = 42;
  for (std::size_t d = 0; d < kFeatures; ++d)
    clouds.features[odd * kFeatures + d] = d == kFeatures - 1 ? 3.0F : 0.1F;
  const std::vector<Outlier> found = find_outliers(clouds.view());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].image, odd);
  EXPECT_GT(found[0].distance, 2 * found[0].usual);
  EXPECT_GT(found[0].extent, 3);
}

TEST(Outliers, DistancesAreMeansOverTheNearestOfTheClass) {
  const TwoClouds clouds;
  const std::vector<float> distances = neighbor_distances(clouds.view());
  const auto cosine = [&](std::size_t a, std::size_t b) {
    double dot = 0, aa = 0, bb = 0;
    for (std::size_t d = 0; d < kFeatures; ++d) {
      const double x = clouds.features[a * kFeatures + d], y = clouds.features[b * kFeatures + d];
      dot += x * y;
      aa += x * x;
      bb += y * y;
    }
    return dot / std::sqrt(aa * bb);
  };
  for (std::size_t i = 0; i < kImages; ++i) {
    std::vector<double> own;
    for (std::size_t j = i % 2; j < kImages; j += 2)
      if (j != i) own.push_back(1 - cosine(i, j));
    std::sort(own.begin(), own.end());
    double sum = 0;
    for (std::size_t k = 0; k < kNeighbors; ++k) sum += own[k];
    EXPECT_NEAR(distances[i], sum / kNeighbors, 1e-5) << i;
  }
}

TEST(Outliers, SmallClassesHaveNone) {
  const std::vector<float> features = {1, 0, 1, 0.1F, 0, 1, 1, 0};
  const std::vector<std::int32_t> labels = {0, 0, 0, 1};
  EXPECT_TRUE(find_outliers({features, labels, 2, 2}).empty());
  EXPECT_EQ(neighbor_distances({features, labels, 2, 2})[3], 0);
}

}  // namespace
}  // namespace kiln
