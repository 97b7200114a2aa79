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

}  // namespace
}  // namespace kiln
