// Which answers are explained: the doubtful ones and the confident mistakes, and few of them.
#include "tools/score/score.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

Score score(float confidence, bool is_unsure = false) {
  Score score;
  score.path = "a.png";
  score.best = {{0, confidence}};
  score.is_unsure = is_unsure;
  return score;
}

std::vector<std::size_t> images_of(const NotableAnswers& answers) {
  std::vector<std::size_t> images;
  for (const NotableAnswer& answer : answers.all()) images.push_back(answer.image);
  return images;
}

TEST(NotableAnswers, AreTheLeastSureOnes) {
  NotableAnswers answers(/*unsure_alone=*/false);
  for (std::size_t i = 0; i < 1000; ++i)
    answers.see(i, score(static_cast<float>((i * 7) % 1000) / 1000), false);
  const std::vector<NotableAnswer> all = answers.all();
  ASSERT_EQ(all.size(), 24u);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].best.confidence, static_cast<float>(i) / 1000);
  EXPECT_EQ(all[0].path, "a.png");
}

TEST(NotableAnswers, OfEqualsAreTheFirst) {
  NotableAnswers answers(/*unsure_alone=*/false);
  for (std::size_t i = 0; i < 30; ++i) answers.see(i, score(0.5F), false);
  std::vector<std::size_t> first(24);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = i;
  EXPECT_EQ(images_of(answers), first);
}

TEST(NotableAnswers, OfAThresholdAreTheGuesses) {
  NotableAnswers answers(/*unsure_alone=*/true);
  answers.see(0, score(0.1F), false);
  answers.see(1, score(0.5F, true), false);
  answers.see(2, score(0.4F, true), false);
  EXPECT_EQ(images_of(answers), (std::vector<std::size_t>{2, 1}));
}

TEST(NotableAnswers, EndWithTheMostConfidentMistakes) {
  NotableAnswers answers(/*unsure_alone=*/true);
  answers.see(0, score(0.9F), true);
  answers.see(1, score(0.3F, true), true);  // once
  answers.see(2, score(0.95F), true);
  answers.see(3, score(0.99F), false);
  EXPECT_EQ(images_of(answers), (std::vector<std::size_t>{1, 2, 0}));
}

TEST(NotableAnswers, AreAHundredAtMost) {
  NotableAnswers answers(/*unsure_alone=*/true);
  for (std::size_t i = 0; i < 300; ++i) {
    answers.see(2 * i, score(0.1F, true), false);
    answers.see(2 * i + 1, score(0.9F), true);
  }
  EXPECT_EQ(images_of(answers).size(), 100u);
}

TEST(NotableAnswers, AreNoBadImages) {
  NotableAnswers answers(/*unsure_alone=*/false);
  answers.see(0, Score(), false);
  EXPECT_TRUE(answers.all().empty());
}

}  // namespace
}  // namespace kiln
