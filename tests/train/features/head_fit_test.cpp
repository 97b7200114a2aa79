#include "train/features/head_fit.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "train/task.h"

namespace kiln {
namespace {

constexpr int kClasses = 3;
const auto kGoOn = [] { return false; };

// Classes whose centers are this far apart.
LabeledFeatures images(std::int64_t count, double distance, std::uint64_t seed) {
  at::manual_seed(8);
  const at::Tensor centers = at::randn({kClasses, 20}) * distance;
  at::manual_seed(seed);
  LabeledFeatures result;
  result.rows = at::randn({count, 20});
  for (std::int64_t i = 0; i < count; ++i) {
    result.labels.push_back(static_cast<std::int32_t>(i % kClasses));
    result.samples.push_back(static_cast<std::uint32_t>(i));
    result.rows[i] += centers[i % kClasses];
  }
  return result;
}

double share_right(const at::Tensor& logits, const std::vector<std::int32_t>& labels) {
  const at::Tensor truth =
      at::tensor(std::vector<std::int64_t>(labels.begin(), labels.end()), at::kLong);
  return logits.argmax(1).eq(truth).to(at::kDouble).mean().item<double>();
}

HeadFit fit(const LabeledFeatures& given) {
  return fit_head(given, kClasses, divided_into_folds(given.labels, {}, 5, 1), {}, {kGoOn});
}

TEST(HeadFit, LearnsAndSaysOutOfFoldWhatNewImagesShow) {
  const LabeledFeatures known = images(240, 0.5, 1), fresh = images(3000, 0.5, 2);
  const HeadFit head = fit(known);
  const double truth = share_right(head_logits(fresh.rows, head), fresh.labels);
  EXPECT_GT(truth, 0.7);
  EXPECT_TRUE(head.is_chosen);
  EXPECT_NEAR(share_right(head.out_of_fold_logits, known.labels), truth, 0.1);
}

// Images without a pattern: what is seen can be learned by heart, but not what is not.
TEST(HeadFit, OutOfFoldNothingIsLearnedFromNoise) {
  const LabeledFeatures noise = images(150, 0, 3);
  const HeadFit head = fit(noise);
  EXPECT_LT(share_right(head.out_of_fold_logits, noise.labels), 0.5);
  EXPECT_GE(head.penalty, 0.3);
}

TEST(HeadFit, IsTheSameEachTime) {
  const LabeledFeatures known = images(60, 0.5, 1);
  const HeadFit one = fit(known), other = fit(known);
  EXPECT_TRUE(at::equal(one.weight, other.weight));
  EXPECT_TRUE(at::equal(one.out_of_fold_logits, other.out_of_fold_logits));
}

// A label of several an image is learned as if it were alone, however many others there are.
TEST(HeadFit, LabelsDoNotDependOnHowManyThereAre) {
  const LabeledFeatures known = images(120, 0.5, 1);
  const auto probabilities = [&](int repeats) {
    std::vector<std::vector<int>> sets;  // of each label, it and its copies
    for (int label = 0; label < kClasses; ++label) {
      sets.emplace_back();
      for (int copy = 0; copy < repeats; ++copy) sets.back().push_back(copy * kClasses + label);
    }
    const int count = kClasses * repeats;
    const auto task = task_of(sets, static_cast<std::size_t>(count));
    const HeadFit head =
        fit_head(known, count, divided_into_folds(known.labels, {}, 5, 1), {}, {kGoOn}, *task);
    return head_logits(known.rows, head).sigmoid().narrow(1, 0, kClasses);
  };
  const at::Tensor alone = probabilities(1), among_many = probabilities(200);
  EXPECT_LT((alone - among_many).abs().max().item<double>(), 0.02);
}

TEST(HeadFit, AnImageOfItsOwnClassAndOneImageAreNoFault) {
  LabeledFeatures few = images(7, 0.5, 1);
  few.labels = {0, 0, 0, 0, 0, 0, 2};  // none of class 1
  EXPECT_TRUE(fit(few).weight.isfinite().all().item<bool>());
  const LabeledFeatures one = images(1, 0.5, 1);
  const HeadFit head = fit(one);
  EXPECT_FALSE(head.is_chosen);
  EXPECT_FALSE(head.out_of_fold_logits.defined());
  EXPECT_TRUE(head.weight.isfinite().all().item<bool>());
}

TEST(HeadFit, RefusesFeaturesThatAreNoNumbers) {
  LabeledFeatures bad = images(30, 0.5, 1);
  bad.rows[3][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(fit(bad), Error);
}

TEST(HeadFit, StopsWhenItIsTold) {
  const LabeledFeatures known = images(60, 0.5, 1);
  const HeadFit head = fit_head(known, kClasses, divided_into_folds(known.labels, {}, 5, 1), {},
                                {[] { return true; }});
  EXPECT_FALSE(head.weight.defined());
}

TEST(HeadFit, EndsWithWhatItHasWhenItsTimeIsOver) {
  const LabeledFeatures known = images(240, 0.5, 1);
  const Folds folds = divided_into_folds(known.labels, {}, 5, 1);
  for (const int most_looks : {0, 20, 400}) {
    int looks = 0;
    FitWatch watch{kGoOn};
    watch.time_share = [&] { return ++looks > most_looks ? 2.0 : 0.0; };
    const HeadFit head = fit_head(known, kClasses, folds, {}, watch);
    EXPECT_TRUE(head.is_cut) << most_looks;
    EXPECT_TRUE(head.weight.isfinite().all().item<bool>());
    EXPECT_TRUE(head.out_of_fold_logits.isfinite().all().item<bool>());
    if (most_looks > 0) {
      EXPECT_GT(share_right(head_logits(known.rows, head), known.labels), 0.6);
    }
  }
}

TEST(HeadFit, SaysHowFarItIs) {
  const LabeledFeatures known = images(60, 0.5, 1);
  std::vector<int> done;
  FitWatch watch{kGoOn};
  watch.at_layer = [&](int number, int most) {
    EXPECT_LT(number, most);
    done.push_back(number);
  };
  fit_head(known, kClasses, divided_into_folds(known.labels, {}, 5, 1), {}, watch);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_GT(done.size(), 10U);
}

}  // namespace
}  // namespace kiln
