#include "data/loader/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

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

}  // namespace
}  // namespace kiln
