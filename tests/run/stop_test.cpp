#include "run/stop.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

// After one epoch of 8 s, of at most 90, each followed by 2 s.
TimeBudget budget(double seconds_left) {
  return {.epochs_done = 1,
          .max_epochs = 90,
          .seconds_left = seconds_left,
          .train_seconds = 8,
          .end_seconds = 2};
}

TEST(EpochsThatFit, AreWholeOnes) {
  EXPECT_EQ(epochs_that_fit(budget(106)), 11) << "with a little in hand";
  EXPECT_EQ(epochs_that_fit(budget(100)), 10);
  EXPECT_EQ(epochs_that_fit(budget(45)), 5);
}

TEST(EpochsThatFit, AreAtMostThoseAskedFor) {
  EXPECT_EQ(epochs_that_fit(budget(1e6)), 90);
  TimeBudget two = budget(1e6);
  two.max_epochs = 2;
  EXPECT_EQ(epochs_that_fit(two), 2);
}

TEST(EpochsThatFit, AreAtLeastThoseDone) {
  EXPECT_EQ(epochs_that_fit(budget(0)), 1);
  EXPECT_EQ(epochs_that_fit(budget(-20)), 1);
  EXPECT_EQ(epochs_that_fit(budget(5)), 1);
  TimeBudget done = budget(50);
  done.max_epochs = 1;
  EXPECT_EQ(epochs_that_fit(done), 1);
}

TEST(EpochsThatFit, EndWithAPartOfOneWhereTheyAreFew) {
  EXPECT_EQ(epochs_that_fit(budget(8)), 2) << "5.6 of 8 s of training, and the validation";
  EXPECT_EQ(epochs_that_fit(budget(18)), 3);
  EXPECT_EQ(epochs_that_fit(budget(30)), 3) << "no part of a fourth";
}

TEST(EpochsThatFit, OfEpochsThatTakeNoTimeAreAll) {
  TimeBudget quick = budget(1);
  quick.train_seconds = quick.end_seconds = 0;
  EXPECT_EQ(epochs_that_fit(quick), 90);
}

TEST(ClosingSeconds, GrowWithWhatIsWrittenButNeverTakeTheWholeLimit) {
  EXPECT_LT(closing_seconds(600, 0), closing_seconds(600, 400'000'000));
  EXPECT_LT(closing_seconds(600, 400'000'000), 5);
  EXPECT_EQ(closing_seconds(2, 1'000'000'000'000), 0.5);
}

}  // namespace
}  // namespace kiln
