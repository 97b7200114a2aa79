#include "tools/select/choice.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kiln {
namespace {

constexpr std::int64_t kWidth = 32;

// In cluster `cluster`.
Candidate candidate(std::uint32_t image, int cluster) {
  at::Tensor features = 0.3 * at::randn({kWidth});
  features[cluster] += 10;
  return {.image = image, .hash = 7919 * image % 10'007, .score = {}, .features = features};
}

std::vector<std::uint32_t> images_of(const std::vector<Candidate>& chosen) {
  std::vector<std::uint32_t> images;
  for (const Candidate& one : chosen) images.push_back(one.image);
  return images;
}

class LabelingChoiceOf : public testing::Test {
 protected:
  LabelingChoiceOf() { at::manual_seed(5); }
};

// The more images a label tells about, the sooner it is asked for.
TEST_F(LabelingChoiceOf, ClustersHasAnImageOfEachTheLargestFirst) {
  LabelingChoice choice(3);
  for (std::uint32_t i = 0; i < 100; ++i) choice.add(candidate(i, 0));
  for (std::uint32_t i = 100; i < 140; ++i) choice.add(candidate(i, 1));
  for (std::uint32_t i = 140; i < 160; ++i) choice.add(candidate(i, 2));
  const std::vector<std::uint32_t> images = images_of(choice.take());
  ASSERT_EQ(images.size(), 3U);
  EXPECT_LT(images[0], 100U);
  EXPECT_TRUE(images[1] >= 100 && images[1] < 140) << images[1];
  EXPECT_GE(images[2], 140U);
}

TEST_F(LabelingChoiceOf, WhatIsLabeledNeedsNoOther) {
  LabelingChoice choice(1);
  for (std::uint32_t i = 0; i < 100; ++i) choice.add(candidate(i, 0));
  for (std::uint32_t i = 100; i < 110; ++i) choice.add(candidate(i, 1));
  for (int part = 0; part < 2; ++part)
    choice.add_labeled(at::stack({candidate(0, 0).features, candidate(0, 0).features}));
  EXPECT_GE(choice.take()[0].image, 100U);
}

TEST_F(LabelingChoiceOf, AsManyAsThereAreIsAllOfThem) {
  LabelingChoice choice(5);
  for (std::uint32_t i = 0; i < 5; ++i) choice.add(candidate(i, static_cast<int>(i)));
  const std::vector<std::uint32_t> images = images_of(choice.take());
  EXPECT_EQ(std::set(images.begin(), images.end()).size(), 5U);
}

// Of more than are compared, too.
TEST_F(LabelingChoiceOf, AnotherOrderIsTheSame) {
  std::vector<Candidate> candidates;
  const at::Tensor rows = at::randn({41'000, kWidth});
  for (std::uint32_t i = 0; i < 41'000; ++i)
    candidates.push_back({.image = i, .hash = 7919 * i % 41'011, .score = {}, .features = rows[i]});
  LabelingChoice one(20), other(20);
  for (const Candidate& some : candidates) one.add(some);
  std::ranges::reverse(candidates);
  for (const Candidate& some : candidates) other.add(some);
  EXPECT_EQ(images_of(one.take()), images_of(other.take()));
}

TEST_F(LabelingChoiceOf, CopiesHasOneOfThem) {
  LabelingChoice choice(5);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Candidate one = candidate(i, static_cast<int>(i));
    Candidate copy = one, near_copy = one;
    copy.image += 10;
    near_copy.image += 20;
    near_copy.features = 3 * near_copy.features + 0.001 * at::randn({kWidth});
    for (const Candidate& some : {one, copy, near_copy}) choice.add(some);
  }
  EXPECT_EQ(choice.take().size(), 3U);
}

TEST_F(LabelingChoiceOf, FeaturesOfZerosAndNoImagesIsNoFault) {
  LabelingChoice choice(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    Candidate one = candidate(i, 0);
    one.features = at::zeros({kWidth});
    choice.add(std::move(one));
  }
  EXPECT_EQ(choice.take().size(), 2U);
  EXPECT_TRUE(LabelingChoice(2).take().empty());
}

}  // namespace
}  // namespace kiln
