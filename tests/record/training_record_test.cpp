#include "record/training_record.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(IsBetter, ComparesTop1ThenLossThenPrefersTheEarlier) {
  EXPECT_TRUE(is_better({5.0, 8, 10, 10}, {1.0, 7, 10, 10}));
  EXPECT_TRUE(is_better({1.0, 8, 10, 10}, {2.0, 8, 10, 10}));
  EXPECT_FALSE(is_better({2.0, 8, 10, 10}, {2.0, 8, 10, 10}));
}

// Three epochs, each the best by one figure.
TEST(IsBetter, GoesByTheFigureAskedFor) {
  const JudgedEpoch top1{{5.0, 9, 10, 10}, 0.3}, loss{{1.0, 7, 10, 10}, 0.4},
      macro{{3.0, 8, 10, 10}, 0.6};
  for (const JudgedEpoch& other : {loss, macro}) {
    EXPECT_TRUE(is_better(top1, other, BestBy::kTop1));
    EXPECT_FALSE(is_better(other, top1, BestBy::kTop1));
  }
  for (const JudgedEpoch& other : {top1, macro}) {
    EXPECT_TRUE(is_better(loss, other, BestBy::kLoss));
    EXPECT_FALSE(is_better(other, loss, BestBy::kLoss));
  }
  for (const JudgedEpoch& other : {top1, loss}) {
    EXPECT_TRUE(is_better(macro, other, BestBy::kMacroRecall));
    EXPECT_FALSE(is_better(other, macro, BestBy::kMacroRecall));
  }
}

TEST(Merit, IsTheFigureAskedForAndMoreIsBetter) {
  const JudgedEpoch epoch{{5.0, 9, 10, 10}, 0.3};
  EXPECT_DOUBLE_EQ(merit(epoch, BestBy::kTop1), 0.9);
  EXPECT_DOUBLE_EQ(merit(epoch, BestBy::kLoss), -0.5);
  EXPECT_DOUBLE_EQ(merit(epoch, BestBy::kMacroRecall), 0.3);
}

TEST(IsBetter, EqualFiguresAreDecidedByTop1AndThenTheEarlierEpoch) {
  const JudgedEpoch first{{2.0, 7, 10, 10}, 0.5}, second{{2.0, 8, 10, 10}, 0.5};
  for (const BestBy by : {BestBy::kTop1, BestBy::kLoss, BestBy::kMacroRecall}) {
    EXPECT_TRUE(is_better(second, first, by));
    EXPECT_FALSE(is_better(first, second, by));
    EXPECT_FALSE(is_better(first, first, by));
  }
}

}  // namespace
}  // namespace kiln
