#include "tools/select/choice.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kiln {
namespace {

constexpr std::int64_t kWidth = 32;

// In cluster `cluster`, with this margin between the two best classes.
Candidate candidate(std::uint32_t image, int cluster, float margin) {
  at::Tensor features = 0.3 * at::randn({kWidth});
  features[cluster] += 10;
  Score score;
  score.best = {{0, 0.5F + margin / 2}, {1, 0.5F - margin / 2}};
  return {image, score, features};
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

// The hundred images of cluster 0 are all doubted more than those of cluster 1.
TEST_F(LabelingChoiceOf, TwoClustersHasImagesOfBoth) {
  LabelingChoice choice(10);
  for (std::uint32_t i = 0; i < 100; ++i) choice.add(candidate(i, 0, 0.1F));
  for (std::uint32_t i = 100; i < 110; ++i) choice.add(candidate(i, 1, 0.5F));
  const std::vector<Candidate> chosen = choice.take();
  ASSERT_EQ(chosen.size(), 10U);
  EXPECT_LT(chosen[0].image, 100U);
  EXPECT_EQ(chosen[0].reason, ChoiceReason::kUnsure);
  EXPECT_GE(chosen[1].image, 100U);
  EXPECT_EQ(chosen[1].reason, ChoiceReason::kSpread);
  const auto num_of_first =
      std::ranges::count_if(chosen, [](const Candidate& one) { return one.image < 100; });
  EXPECT_GT(num_of_first, 1);
  EXPECT_LT(num_of_first, 10);
}

TEST_F(LabelingChoiceOf, AsManyAsThereAreIsAllOfThemAndTheMostDoubtedFirst) {
  LabelingChoice choice(5);
  for (std::uint32_t i = 0; i < 5; ++i)
    choice.add(candidate(i, static_cast<int>(i), i == 3 ? 0.2F : 1.0F));
  const std::vector<std::uint32_t> images = images_of(choice.take());
  EXPECT_EQ(images[0], 3U);
  EXPECT_EQ(std::set(images.begin(), images.end()).size(), 5U);
}

TEST_F(LabelingChoiceOf, CopiesHasOneOfThem) {
  LabelingChoice choice(5);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Candidate one = candidate(i, static_cast<int>(i), 0.4F);
    Candidate copy = one, near_copy = one;
    copy.image += 10;
    near_copy.image += 20;
    near_copy.features = 3 * near_copy.features + 0.001 * at::randn({kWidth});
    for (const Candidate& some : {one, copy, near_copy}) choice.add(some);
  }
  EXPECT_EQ(choice.take().size(), 3U);
}

TEST_F(LabelingChoiceOf, SureImagesThatAreUnlikeAllOthersNamesThem) {
  LabelingChoice choice(3);
  for (std::uint32_t i = 0; i < 50; ++i) {
    Candidate one = candidate(i, static_cast<int>(i % 30), 0.9F);
    one.score.alike = i == 7 ? 0.001F : 0.5F;
    choice.add(std::move(one));
  }
  const std::vector<Candidate> chosen = choice.take();
  EXPECT_EQ(chosen[0].image, 7U);
  EXPECT_EQ(chosen[0].reason, ChoiceReason::kUnlike);
  EXPECT_NE(chosen[1].reason, ChoiceReason::kUnlike);
}

// More than the pool holds: what is doubted most stays, whenever it came.
TEST_F(LabelingChoiceOf, ManyImagesKeepsTheMostDoubted) {
  LabelingChoice choice(4);
  for (std::uint32_t i = 0; i < 5000; ++i)
    choice.add(candidate(i, static_cast<int>(i % 30), i % 1000 == 17 ? 0.0F : 0.98F));
  for (const std::uint32_t image : images_of(choice.take())) EXPECT_EQ(image % 1000, 17U);
}

TEST_F(LabelingChoiceOf, FeaturesOfZerosAndNoImagesIsNoFault) {
  LabelingChoice choice(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    Candidate one = candidate(i, 0, 0.5F);
    one.features = at::zeros({kWidth});
    choice.add(std::move(one));
  }
  EXPECT_EQ(choice.take().size(), 2U);
  EXPECT_TRUE(LabelingChoice(2).take().empty());
}

}  // namespace
}  // namespace kiln
