#include "train/mixing.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace kiln {
namespace {

constexpr int kSide = 8;

DeviceBatch batch_of(int count) {
  at::manual_seed(9);
  return {at::randn({count, 3, kSide, kSide}).contiguous(at::MemoryFormat::ChannelsLast),
          at::arange(count, at::kLong)};
}

DeviceBatch part_of(const DeviceBatch& batch, int begin, int count) {
  return {batch.images.narrow(0, begin, count), batch.labels.narrow(0, begin, count)};
}

// With the numbers of the mix, as they come from the uploader.
DeviceBatch mixed(DeviceBatch batch, const MixPlan& plan, std::uint64_t epoch,
                  std::uint64_t first_pair, const std::vector<std::uint32_t>& places) {
  batch.numbers = at::tensor(mix_numbers(plan, epoch, first_pair, places, {kSide, kSide}));
  return mixed(batch, plan);
}

std::vector<std::uint32_t> all_places(int count) {
  std::vector<std::uint32_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0U);
  return places;
}

// Mean and variance of Beta(a, a): 1/2 and 1 / (4 (2 a + 1)).
TEST(BetaDraw, HasTheMomentsOfItsDistribution) {
  for (const double alpha : {0.1, 0.4, 1.0, 3.0}) {
    constexpr int kDraws = 20000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      RandomSequence random{17, static_cast<std::uint64_t>(i)};
      const double value = beta_draw(alpha, random);
      EXPECT_GE(value, 0);
      EXPECT_LE(value, 1);
      sum += value - 0.5;
      squares += (value - 0.5) * (value - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0, 4 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 0.04 * variance) << alpha;
  }
  RandomSequence random{17};
  EXPECT_TRUE(std::isfinite(beta_draw(1e-6, random)));
}

// By the definition: l x + (1 - l) x', and the labels by the same shares.
TEST(Mixup, BlendsBothImagesOfAPair) {
  const DeviceBatch batch = batch_of(6);
  const MixPlan plan{.mixup = 0.4, .seed = 3};
  const DeviceBatch out = mixed(batch, plan, 2, 10, all_places(6));
  for (int i = 0; i < 6; ++i) {
    const int other = i ^ 1;
    const double lambda =
        pair_mix(plan, 2, 10 + static_cast<std::uint64_t>(i / 2), kSide, kSide).share;
    const at::Tensor expected = lambda * batch.images[i] + (1 - lambda) * batch.images[other];
    EXPECT_TRUE(at::allclose(out.images[i], expected, 1e-5, 1e-6));
    EXPECT_EQ(out.labels[i].item<std::int64_t>(), lambda >= 0.5 ? i : other);
    EXPECT_EQ(out.other_labels[i].item<std::int64_t>(), lambda >= 0.5 ? other : i);
    EXPECT_NEAR(out.shares[i].item<double>(), std::max(lambda, 1 - lambda), 1e-6);
  }
}

// Every pixel is one image's or the other's, and the share is that of the pixels.
TEST(Cutmix, ExchangesARectangleAndCountsItsArea) {
  const DeviceBatch batch = batch_of(40);
  const MixPlan plan{.cutmix = 1, .seed = 3};
  const DeviceBatch out = mixed(batch, plan, 1, 0, all_places(40));
  int cut = 0;
  for (int i = 0; i < 40; ++i) {
    const at::Tensor own = (out.images[i] == batch.images[i]).all(0);
    const at::Tensor theirs = (out.images[i] == batch.images[i ^ 1]).all(0);
    EXPECT_TRUE(own.logical_or(theirs).all().item<bool>());
    const double share = own.to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(out.shares[i].item<double>(), std::max(share, 1 - share), 1e-6);
    cut += share > 0 && share < 1 ? 1 : 0;
    const PairMix mix = pair_mix(plan, 1, static_cast<std::uint64_t>(i / 2), kSide, kSide);
    const at::Tensor inside = theirs.slice(0, mix.top, mix.bottom).slice(1, mix.left, mix.right);
    EXPECT_TRUE(inside.all().item<bool>());
  }
  EXPECT_GT(cut, 10);
}

TEST(Mixing, WithBothKindsTakesEachForSomePairs) {
  const MixPlan plan{.mixup = 0.4, .cutmix = 1, .seed = 5};
  int blended = 0;
  for (std::uint64_t pair = 0; pair < 200; ++pair)
    blended += pair_mix(plan, 1, pair, kSide, kSide).blend < 1 ? 1 : 0;
  EXPECT_NEAR(blended, 100, 30);
}

// Two ranks with half of a global batch each, against one process.
TEST(Mixing, DoesNotDependOnHowABatchIsDivided) {
  const DeviceBatch whole = batch_of(8);
  for (const MixPlan& plan :
       {MixPlan{.mixup = 0.3}, MixPlan{.cutmix = 1}, MixPlan{.mixup = 0.3, .cutmix = 1}}) {
    const DeviceBatch one = mixed(whole, plan, 4, 8, all_places(8));
    for (const int half : {0, 1}) {
      const DeviceBatch mine = mixed(part_of(whole, 4 * half, 4), plan, 4,
                                     8 + 2 * static_cast<std::uint64_t>(half), all_places(4));
      EXPECT_TRUE(at::equal(mine.images, one.images.narrow(0, 4 * half, 4)));
      EXPECT_TRUE(at::equal(mine.labels, one.labels.narrow(0, 4 * half, 4)));
      EXPECT_TRUE(at::equal(mine.shares, one.shares.narrow(0, 4 * half, 4)));
    }
  }
}

TEST(Mixing, LeavesAnImageWithoutItsPartnerAndMovesNoOtherPair) {
  const DeviceBatch whole = batch_of(6);
  const MixPlan plan{.mixup = 0.4};
  const DeviceBatch all = mixed(whole, plan, 1, 0, all_places(6));
  const at::Tensor kept = at::tensor({0, 2, 4, 5}, at::kLong);  // places 1 and 3 are missing
  const DeviceBatch some =
      mixed({whole.images.index_select(0, kept), whole.labels.index_select(0, kept)}, plan, 1, 0,
            {0, 2, 4, 5});
  EXPECT_TRUE(at::equal(some.images.narrow(0, 0, 1), whole.images.narrow(0, 0, 1)));
  EXPECT_TRUE(at::equal(some.images[1], whole.images[2]));
  EXPECT_EQ(some.shares[0].item<double>(), 1);
  EXPECT_TRUE(at::equal(some.images.narrow(0, 2, 2), all.images.narrow(0, 4, 2)));
}

TEST(Mixing, ChangesWithTheSeedTheEpochAndThePair) {
  const double usual = pair_mix({.mixup = 1, .seed = 1}, 1, 1, kSide, kSide).share;
  EXPECT_NE(pair_mix({.mixup = 1, .seed = 2}, 1, 1, kSide, kSide).share, usual);
  EXPECT_NE(pair_mix({.mixup = 1, .seed = 1}, 2, 1, kSide, kSide).share, usual);
  EXPECT_NE(pair_mix({.mixup = 1, .seed = 1}, 1, 2, kSide, kSide).share, usual);
}

}  // namespace
}  // namespace kiln
