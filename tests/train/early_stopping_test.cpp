#include "train/state.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(EarlyStopping, CountsEpochsInARowThatDidNotImproveOnThePreviousOne) {
  EarlyStopping stopping{.patience = 2};
  stopping.add(1.0);
  EXPECT_FALSE(stopping.exhausted());
  stopping.add(1.0);
  EXPECT_FALSE(stopping.exhausted());  // equal is a strike
  stopping.add(0.9);
  EXPECT_FALSE(stopping.exhausted());  // forgiven
  stopping.add(1.5);
  EXPECT_FALSE(stopping.exhausted());
  stopping.add(1.6);
  EXPECT_TRUE(stopping.exhausted());
}

TEST(EarlyStopping, GoesOnFromItsValues) {
  EarlyStopping before{.patience = 2};
  before.add(1.0);
  before.add(1.1);
  EarlyStopping after = before;
  after.add(1.2);
  EXPECT_TRUE(after.exhausted());
}

}  // namespace
}  // namespace kiln
