#include "train/features/likeness.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::int64_t kPlenty = 4 << 20;

// `count` images of each class, around a direction of its own.
LabeledFeatures clusters(int num_classes, int count, std::int64_t width, double spread) {
  LabeledFeatures features{spread * at::randn({num_classes * count, width}), {}, {}};
  for (int c = 0; c < num_classes; ++c)
    for (int i = 0; i < count; ++i) {
      features.rows[c * count + i][c] += 10;
      features.labels.push_back(c);
      features.samples.push_back(static_cast<std::uint32_t>(c * count + i));
    }
  return features;
}

// With logits that say nothing.
Likeness fitted(const FeatureSets& sets, std::int64_t most_bytes) {
  return fit_likeness(sets, at::zeros({sets.valid.size()}), most_bytes);
}

std::vector<double> alike(const Likeness& known, const at::Tensor& rows) {
  return known.alike(rows, at::zeros({rows.size(0)}));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

class LikenessOf : public testing::Test {
 protected:
  LikenessOf() { at::manual_seed(3); }
};

TEST_F(LikenessOf, ImagesLikeThoseOfTrainingIsUniformAndOfOthersSmall) {
  const Likeness known = fitted({clusters(3, 50, 16, 1), clusters(3, 100, 16, 1)}, kPlenty);
  EXPECT_EQ(known.references.size(0), 150);
  EXPECT_EQ(known.held_out.size(1), 300);
  EXPECT_FALSE(known.axes.defined());
  EXPECT_NEAR(mean(alike(known, clusters(3, 200, 16, 1).rows)), 0.5, 0.05);
  const at::Tensor others = 3 * at::randn({200, 16});
  EXPECT_LT(mean(alike(known, others)), 0.02);
  for (const double share : alike(known, others)) EXPECT_GE(share, 1.0 / 301);
  EXPECT_GT(known.separation, 0.99);
}

// One of the held-out images itself is no nearer than itself.
TEST_F(LikenessOf, IsAShareOfTheHeldOutImages) {
  const LabeledFeatures valid = clusters(2, 60, 8, 1);
  const Likeness known = fitted({clusters(2, 20, 8, 1), valid}, kPlenty);
  const at::Tensor distances = known.distances(valid.rows);
  const std::vector<double> shares = alike(known, valid.rows);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto farther =
        (distances >= distances[static_cast<std::int64_t>(i)]).sum().item<std::int64_t>();
    EXPECT_DOUBLE_EQ(shares[i], (1.0 + static_cast<double>(farther)) / 121);
  }
}

TEST_F(LikenessOf, NearImagesIsSmallIfNothingSpeaksForAnyClass) {
  const LabeledFeatures valid = clusters(3, 200, 16, 1), more = clusters(3, 200, 16, 1);
  const Likeness known =
      fit_likeness({clusters(3, 50, 16, 1), valid}, 10 + at::randn({valid.size()}), kPlenty);
  EXPECT_NEAR(mean(known.alike(more.rows, 10 + at::randn({more.size()}))), 0.5, 0.05);
  EXPECT_LT(mean(known.alike(more.rows, at::zeros({more.size()}))), 0.01);
  EXPECT_LT(mean(known.alike(3 * at::randn({200, 16}), at::full({200}, 20.0F))), 0.02);
}

TEST_F(LikenessOf, ClassesThatLookTheSameAreNotSeparate) {
  LabeledFeatures train = clusters(1, 200, 8, 1), valid = clusters(1, 400, 8, 1);
  for (std::size_t i = 0; i < train.labels.size(); ++i) train.labels[i] = static_cast<int>(i % 2);
  for (std::size_t i = 0; i < valid.labels.size(); ++i) valid.labels[i] = static_cast<int>(i % 2);
  EXPECT_NEAR(fitted({train, valid}, kPlenty).separation, 0.5, 0.1);
}

TEST_F(LikenessOf, WideFeaturesAreProjectedAndFewBytesMeanFewerAxesThenFewerImages) {
  const FeatureSets sets{clusters(4, 100, 600, 0.2), clusters(4, 50, 600, 0.2)};
  EXPECT_EQ(fitted(sets, kPlenty).axes.size(1), 512);
  const Likeness small = fitted(sets, 2 * 64 * (600 + 4 * 30));
  EXPECT_EQ(small.axes.size(1), 64);
  EXPECT_EQ(small.references.size(0), 4 * 30);
  EXPECT_GT(small.separation, 0.95);
  EXPECT_THROW(fitted(sets, 2 * 64 * (600 + 4 * 4)), Error);
}

TEST_F(LikenessOf, TooFewImagesAndNumbersThatAreNotFiniteAreRefused) {
  EXPECT_THROW(fitted({clusters(2, 20, 8, 1), clusters(2, 49, 8, 1)}, kPlenty), Error);
  EXPECT_THROW(fitted({clusters(1, 4, 8, 1), clusters(2, 50, 8, 1)}, kPlenty), Error);
  LabeledFeatures valid = clusters(2, 50, 8, 1);
  valid.rows[3][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(fitted({clusters(2, 20, 8, 1), valid}, kPlenty), Error);
}

TEST_F(LikenessOf, FeaturesOfZerosAreUnlike) {
  const Likeness known = fitted({clusters(2, 20, 8, 1), clusters(2, 50, 8, 1)}, kPlenty);
  EXPECT_NEAR(alike(known, at::full({1, 8}, 0.0F))[0], 1.0 / 101, 1e-9);
}

}  // namespace
}  // namespace kiln
