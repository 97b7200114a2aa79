#include "run/frozen/frozen_run.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

Prediction answer(std::uint32_t sample, bool is_right) {
  return {.sample = sample, .label = 1, .predicted = is_right ? 1 : 0, .confidence = 0.5F};
}

TEST(AutomaticRun, PacksAnAnswerForEachImage) {
  EXPECT_EQ(packed_answers({answer(3, true), answer(0, false)}, 5), "0--1-");
}

TEST(AutomaticRun, PairsTheImagesThatBothHaveAnswered) {
  const PairedAnswers pair =
      paired("110-", {answer(2, true), answer(0, false), answer(1, true), answer(3, true)});
  EXPECT_EQ(pair.images(), 3);
  EXPECT_EQ(pair.both, 1);
  EXPECT_EQ(pair.only_first, 1);
  EXPECT_EQ(pair.only_second, 1);
}

}  // namespace
}  // namespace kiln
