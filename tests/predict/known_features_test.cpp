#include "predict/features/known_features.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace kiln {
namespace {

LabeledFeatures random_features(int num_classes, int count, std::int64_t width) {
  LabeledFeatures features{at::randn({num_classes * count, width}), {}, {}};
  for (int i = 0; i < num_classes * count; ++i) {
    features.labels.push_back(i % num_classes);
    features.samples.push_back(static_cast<std::uint32_t>(i));
  }
  return features;
}

class KnownFeatures : public testing::Test {
 protected:
  static constexpr std::int64_t kWidth = 80;

  KnownFeatures() {
    at::manual_seed(4);
    sets_ = {random_features(2, 20, kWidth), random_features(2, 60, kWidth)};
    log_sums_ = at::randn({120});
    model_.state = {{"weight", DType::kFloat32, {100'000}, std::string(400'000, 'w')}};
    model_.features = features_file(known_likeness(sets_, log_sums_, model_.state), model_.state);
  }

  Likeness read(std::int64_t width = kWidth) const {
    return read_features(*model_.features, hash_of(model_.state), width, "f");
  }

  FeatureSets sets_;
  at::Tensor log_sums_;
  ModelDirectory model_;
};

TEST_F(KnownFeatures, AreReadAsTheyWereFitted) {
  const Likeness known = read(), fitted = fit_likeness(sets_, log_sums_, 40'000);
  EXPECT_TRUE(known.references.equal(fitted.references));
  EXPECT_TRUE(known.held_out.equal(fitted.held_out));
  EXPECT_EQ(known.axes.defined(), fitted.axes.defined());
  EXPECT_FLOAT_EQ(static_cast<float>(known.separation), static_cast<float>(fitted.separation));
  const at::Tensor rows = at::randn({5, kWidth});
  EXPECT_EQ(known.alike(rows, at::zeros({5})), fitted.alike(rows, at::zeros({5})));
}

TEST_F(KnownFeatures, TakeATenthOfTheWeightsAtMost) {
  EXPECT_LE(model_.features->size(), 40'000U + 2'000);
  model_.state.front().bytes.resize(1000);
  EXPECT_THROW(known_likeness(sets_, log_sums_, model_.state), Error);
}

TEST_F(KnownFeatures, OfOtherWeightsOrAnotherWidthAreRefused) {
  EXPECT_THROW(read(kWidth + 1), Error);
  model_.state.front().bytes[7] = 'v';
  EXPECT_THROW(read(), Error);
}

TEST_F(KnownFeatures, EveryTruncatedFileIsRefused) {
  const std::string whole = *model_.features;
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    model_.features = whole.substr(0, size);
    EXPECT_THROW(read(), Error) << size;
  }
}

TEST(SomeImages, AreSpreadEvenly) {
  EXPECT_EQ(evenly(10, 5), (std::vector<std::uint32_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(evenly(3, 3), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_TRUE(evenly(0, 0).empty());
}

TEST(SomeImages, OfEachClassAreAtMostSoMany) {
  SampleTable samples;
  for (int i = 0; i < 100; ++i)
    samples.push_back({.file_name = std::to_string(i), .label = i % 10 == 0 ? 1 : 0});
  const std::vector<std::uint32_t> chosen = some_of_each_class(samples, 2, 20, 5);
  EXPECT_EQ(chosen.size(), 30U);
  EXPECT_EQ(std::set(chosen.begin(), chosen.end()).size(), 30U);
  EXPECT_EQ(std::ranges::count_if(chosen, [&](std::uint32_t i) { return samples.label(i) == 1; }),
            10);
  EXPECT_EQ(chosen, some_of_each_class(samples, 2, 20, 5));
  EXPECT_NE(chosen, some_of_each_class(samples, 2, 20, 6));
}

}  // namespace
}  // namespace kiln
