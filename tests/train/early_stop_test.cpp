#include "train/early_stop.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Patience, CountsEpochsInARowThatDidNotImproveOnThePreviousOne) {
  Patience patience(2);
  EXPECT_FALSE(patience.exhausted_after(1.0));
  EXPECT_FALSE(patience.exhausted_after(1.0));  // equal is a strike
  EXPECT_FALSE(patience.exhausted_after(0.9));  // forgiven
  EXPECT_FALSE(patience.exhausted_after(1.5));
  EXPECT_TRUE(patience.exhausted_after(1.6));
}

TEST(IsBetter, TopOneFirstThenLossThenEarlier) {
  EXPECT_TRUE(is_better({5.0, 8, 10, 10}, {1.0, 7, 10, 10}));
  EXPECT_TRUE(is_better({1.0, 8, 10, 10}, {2.0, 8, 10, 10}));
  EXPECT_FALSE(is_better({2.0, 8, 10, 10}, {2.0, 8, 10, 10}));
}

}  // namespace
}  // namespace kiln
