// Which answers pages show: mistakes of every confused pair, and right answers beside them.
#include "predict/shown_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace kiln {
namespace {

// `count` answers of images of class `label`, each less sure than the one before.
void add(std::vector<Prediction>& answers, int label, int predicted, int count, float confidence) {
  for (int i = 0; i < count; ++i)
    answers.push_back({.sample = static_cast<std::uint32_t>(answers.size()),
                       .label = label,
                       .predicted = predicted,
                       .confidence = confidence - 0.0001F * static_cast<float>(i)});
}

TEST(AnswersToShow, AreTheSurestMistakesAndSomeOfEachPair) {
  std::vector<Prediction> answers;
  add(answers, 0, 0, 500, 0.99F);
  add(answers, 0, 1, 300, 0.9F);  // hides all others, if the surest alone were shown
  for (int label = 1; label < 30; ++label) add(answers, label, 0, 10, 0.5F);
  const std::vector<std::size_t> shown = answers_to_show(answers);
  ASSERT_EQ(shown.size(), 1U * 300 + 29 * 10 + 40) << "all mistakes are named";
  const std::span drawn(shown.data(), kMostDrawn);
  std::map<std::pair<int, int>, int> cells;
  for (const std::size_t i : drawn) ++cells[{answers[i].label, answers[i].predicted}];
  EXPECT_EQ((cells[{0, 1}]), 60);
  for (int label = 1; label < 30; ++label) EXPECT_GE((cells[{label, 0}]), 3) << label;
  EXPECT_EQ((cells[{0, 0}]), 40);
  for (std::size_t k = 0; k + 1 < 160; ++k)
    EXPECT_GE(answers[shown[k]].confidence, answers[shown[k + 1]].confidence) << k;
  EXPECT_EQ(std::set(shown.begin(), shown.end()).size(), shown.size());
}

TEST(AnswersToShow, OfImagesWithoutLabelsAreSomeOfEachClass) {
  std::vector<Prediction> answers;
  add(answers, -1, 0, 1000, 0.9F);
  add(answers, -1, 1, 3, 0.8F);
  const std::vector<std::size_t> shown = answers_to_show(answers);
  EXPECT_EQ(shown.size(), kMostDrawn);
  EXPECT_EQ(std::ranges::count_if(shown, [&](std::size_t i) { return answers[i].predicted == 1; }),
            3);
  EXPECT_TRUE(answers_to_show({}).empty());
}

}  // namespace
}  // namespace kiln
