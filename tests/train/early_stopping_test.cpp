#include "train/early_stopping.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

// Of 100 images with this mean loss, so many of them right.
JudgedEpoch epoch_of(double loss, int right = 0) {
  return {{.loss_sum = 100 * loss, .top1 = right, .top5 = right, .count = 100}, 0};
}

TEST(EarlyStopping, CountsEpochsInARowThatDidNotImproveOnThePreviousOne) {
  EarlyStopping stopping{.patience = 2};
  stopping.add(epoch_of(1.0));
  EXPECT_FALSE(stopping.exhausted());
  stopping.add(epoch_of(1.0));
  EXPECT_FALSE(stopping.exhausted());  // equal is a strike
  stopping.add(epoch_of(0.9));
  EXPECT_FALSE(stopping.exhausted());  // forgiven
  stopping.add(epoch_of(1.5));
  EXPECT_FALSE(stopping.exhausted());
  stopping.add(epoch_of(1.6));
  EXPECT_TRUE(stopping.exhausted());
}

TEST(EarlyStopping, GoesOnFromItsValues) {
  EarlyStopping before{.patience = 2};
  before.add(epoch_of(1.0));
  before.add(epoch_of(1.1));
  EarlyStopping after = before;
  after.add(epoch_of(1.2));
  EXPECT_TRUE(after.exhausted());
}

TEST(EarlyStopping, CountsEpochsThatAreNoBetterThanTheBestByItsFigure) {
  EarlyStopping stopping{.patience = 2, .when = StopWhen::kBest, .best_by = BestBy::kTop1};
  stopping.add(epoch_of(1.0, 50));
  stopping.add(epoch_of(2.0, 51));  // a higher loss does not count
  EXPECT_EQ(stopping.strikes, 0);
  stopping.add(epoch_of(0.5, 40));
  stopping.add(epoch_of(0.4, 51));  // above the previous one, but not above the best
  EXPECT_TRUE(stopping.exhausted());
  EarlyStopping by_loss{.patience = 1, .when = StopWhen::kBest, .best_by = BestBy::kLoss};
  by_loss.add(epoch_of(1.0, 50));
  by_loss.add(epoch_of(0.9, 10));
  EXPECT_FALSE(by_loss.exhausted());
  by_loss.add(epoch_of(0.95, 90));
  EXPECT_TRUE(by_loss.exhausted());
}

TEST(EarlyStopping, BetterIsByMoreThanTheLeastDifference) {
  for (const StopWhen when : {StopWhen::kPrevious, StopWhen::kBest}) {
    EarlyStopping stopping{
        .patience = 1, .when = when, .best_by = BestBy::kLoss, .min_delta = 0.125};
    stopping.add(epoch_of(1.0));
    stopping.add(epoch_of(0.75));
    EXPECT_FALSE(stopping.exhausted());
    stopping.add(epoch_of(0.625));
    EXPECT_TRUE(stopping.exhausted());
  }
}

TEST(EarlyStopping, NeverBeforeTheFirstEpochsNorWhereItIsOff) {
  EarlyStopping late{.patience = 1, .min_epochs = 3}, off{.patience = 1, .when = StopWhen::kOff};
  for (const double loss : {1.0, 1.1}) {
    late.add(epoch_of(loss));
    off.add(epoch_of(loss));
  }
  EXPECT_FALSE(late.exhausted());
  late.add(epoch_of(1.2));
  EXPECT_TRUE(late.exhausted());
  off.add(epoch_of(1.2));
  EXPECT_FALSE(off.exhausted());
}

}  // namespace
}  // namespace kiln
