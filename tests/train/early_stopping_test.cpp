#include "train/state.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(EarlyStopping, CountsEpochsInARowThatDidNotImproveOnThePreviousOne) {
  EarlyStopping stopping{.patience = 2};
  EXPECT_FALSE(stopping.exhausted_after(1.0));
  EXPECT_FALSE(stopping.exhausted_after(1.0));  // equal is a strike
  EXPECT_FALSE(stopping.exhausted_after(0.9));  // forgiven
  EXPECT_FALSE(stopping.exhausted_after(1.5));
  EXPECT_TRUE(stopping.exhausted_after(1.6));
}

TEST(EarlyStopping, GoesOnFromItsValues) {
  EarlyStopping before{.patience = 2};
  before.exhausted_after(1.0);
  before.exhausted_after(1.1);
  EarlyStopping after = before;
  EXPECT_TRUE(after.exhausted_after(1.2));
}

}  // namespace
}  // namespace kiln
