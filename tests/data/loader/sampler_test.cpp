#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/loader/sampler.h"

namespace kiln {
namespace {

std::vector<std::uint32_t> shuffled(std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  for (std::uint32_t i = 0; i < count; ++i) order[i] = (i * 7 + 3) % count;
  return order;
}

// Two ranks with batch size 2 together see the same batches as one with batch size 4.
TEST(Sampler, RanksSliceTheGlobalBatch) {
  const auto order = shuffled(11);
  const auto one = training_indices(order, {0, 1, 4});
  const auto first = training_indices(order, {0, 2, 2}),
             second = training_indices(order, {1, 2, 2});
  ASSERT_EQ(one.size(), 8U);  // the partial global batch is dropped
  ASSERT_EQ(first.size(), 4U);
  for (std::size_t batch = 0; batch < 2; ++batch) {
    std::vector<std::uint32_t> joined(first.begin() + batch * 2, first.begin() + batch * 2 + 2);
    joined.insert(joined.end(), second.begin() + batch * 2, second.begin() + batch * 2 + 2);
    EXPECT_TRUE(std::equal(joined.begin(), joined.end(), one.begin() + batch * 4));
  }
}

TEST(Sampler, AccumulatedBatchesMakeWholeSteps) {
  const auto order = shuffled(50);
  EXPECT_EQ(training_indices(order, {0, 2, 4, 3}).size(), 24U);  // 2 steps of 3 batches of 4
  EXPECT_EQ(training_indices(order, {1, 2, 4, 3}).size(), 24U);
  EXPECT_TRUE(training_indices(order, {0, 2, 26, 1}).empty());
}

// Of three ranks, the last of which serves parameters.
TEST(Sampler, ARankBeyondThoseThatTrainHasNoImages) {
  EXPECT_TRUE(training_indices(shuffled(50), {2, 2, 4}).empty());
  EXPECT_EQ(training_indices(shuffled(50), {1, 2, 4}).size(), 24U);
}

TEST(Sampler, EveryValidationImageBelongsToOneRank) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    std::vector<std::uint32_t> all;
    for (int rank = 0; rank < ranks; ++rank)
      for (const std::uint32_t sample : validation_indices(10, {rank, ranks, 4}))
        all.push_back(sample);
    std::sort(all.begin(), all.end());
    std::vector<std::uint32_t> expected(10);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

// 40 images of class 0, 7 of class 1, 1 of class 3, mixed; none of class 2.
std::vector<std::int32_t> uneven_labels() {
  std::vector<std::int32_t> labels(48, 0);
  for (int i = 0; i < 7; ++i) labels[static_cast<std::size_t>(5 * i + 3)] = 1;
  labels[20] = 3;
  return labels;
}

std::map<int, int> draws_by_class(const SampledOrder& epoch,
                                  const std::vector<std::int32_t>& labels) {
  std::map<int, int> draws;
  for (const std::uint32_t image : epoch.order) ++draws[labels[image]];
  return draws;
}

TEST(BalancedOrder, DrawsEveryClassEquallyOften) {
  const std::vector<std::int32_t> labels = uneven_labels();
  const SampledOrder epoch = balanced_order(labels, 48, 1, 1);
  EXPECT_EQ(draws_by_class(epoch, labels), (std::map<int, int>{{0, 16}, {1, 16}, {3, 16}}));
}

TEST(BalancedOrder, WhatIsLeftOverTakesTurnsOverTheEpochs) {
  const std::vector<std::int32_t> labels = uneven_labels();
  std::map<int, int> all;
  for (std::uint64_t number = 1; number <= 6; ++number) {
    const SampledOrder epoch = balanced_order(labels, 47, 1, number);
    ASSERT_EQ(epoch.order.size(), 47U);
    for (const auto& [label, draws] : draws_by_class(epoch, labels)) {
      EXPECT_TRUE(draws == 15 || draws == 16) << draws;
      all[label] += draws;
    }
  }
  EXPECT_EQ(all, (std::map<int, int>{{0, 94}, {1, 94}, {3, 94}}));
}

// Class 0 has 40 images and 16 draws an epoch: 5 epochs are two passes.
TEST(BalancedOrder, ImagesOfAClassComeInPassesAcrossEpochs) {
  const std::vector<std::int32_t> labels = uneven_labels();
  std::map<std::uint32_t, int> draws;
  std::set<std::uint32_t> first_two;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    for (const std::uint32_t image : balanced_order(labels, 48, 9, number).order) {
      ++draws[image];
      if (number <= 2 && labels[image] == 0) first_two.insert(image);
    }
  }
  EXPECT_EQ(first_two.size(), 32U);
  EXPECT_EQ(draws.size(), labels.size());
  for (const auto& [image, count] : draws) {
    if (labels[image] == 0) {
      EXPECT_EQ(count, 2);
    }
    if (labels[image] == 1) {
      EXPECT_TRUE(count == 11 || count == 12) << count;
    }
  }
}

TEST(BalancedOrder, CountsRepeatsInTheirOrder) {
  const std::vector<std::int32_t> labels = uneven_labels();
  const SampledOrder epoch = balanced_order(labels, 48, 2, 3);
  ASSERT_EQ(epoch.repeats.size(), epoch.order.size());
  std::map<std::uint32_t, std::uint32_t> seen;
  for (std::size_t i = 0; i < epoch.order.size(); ++i)
    EXPECT_EQ(epoch.repeats[i], seen[epoch.order[i]]++);
  EXPECT_EQ(seen[20], 16U);
}

TEST(BalancedOrder, IsAFunctionOfSeedAndEpoch) {
  const std::vector<std::int32_t> labels = uneven_labels();
  const SampledOrder epoch = balanced_order(labels, 48, 2, 3);
  EXPECT_EQ(balanced_order(labels, 48, 2, 3).order, epoch.order);
  EXPECT_NE(balanced_order(labels, 48, 2, 4).order, epoch.order);
  EXPECT_NE(balanced_order(labels, 48, 3, 3).order, epoch.order);
}

TEST(BalancedOrder, TakesAnyNumberOfImages) {
  EXPECT_TRUE(balanced_order({}, 0, 1, 1).order.empty());
  const std::vector<std::int32_t> labels = {0, 1, -1};
  EXPECT_EQ(balanced_order(labels, 1, 1, 1).order.size(), 1U);
  const SampledOrder epoch = balanced_order(labels, 2, 1, 2);
  EXPECT_EQ(std::set<std::uint32_t>(epoch.order.begin(), epoch.order.end()),
            (std::set<std::uint32_t>{0, 1}));
}

}  // namespace

}  // namespace kiln
