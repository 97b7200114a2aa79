#include "train/schedule/catalogue.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

void expect_rates(const SchedulePlan& plan, const std::vector<double>& expected) {
  ASSERT_EQ(static_cast<std::size_t>(plan.epochs), expected.size());
  for (int step = 0; step < plan.epochs * plan.steps_per_epoch; ++step)
    EXPECT_NEAR(rate(plan, step), expected[static_cast<std::size_t>(step / plan.steps_per_epoch)],
                1e-12)
        << "step " << step;
}

SchedulePlan plan(double epochs, double warmup_epochs, double peak, int steps_per_epoch = 1) {
  return {.epochs = epochs,
          .warmup_epochs = warmup_epochs,
          .peak = peak,
          .steps_per_epoch = steps_per_epoch};
}

// The expected rates were computed by the component that this program re-implements.
TEST(PolynomialSchedule, Falls) {
  expect_rates(plan(5, 0, 0.001), {0.001, 0.000640036, 0.000360064, 0.000160084, 0.000040096});
}
TEST(PolynomialSchedule, IsOneRateForAllStepsOfAnEpoch) {
  expect_rates(plan(5, 0, 0.001, 7), {0.001, 0.000640036, 0.000360064, 0.000160084, 0.000040096});
}
TEST(PolynomialSchedule, WarmsUpFirst) {
  expect_rates(plan(6, 2, 0.1), {0.0001, 0.05005, 0.1, 0.05625004375, 0.025000075, 0.00625009375});
}
TEST(PolynomialSchedule, NeverReachesThePeakWhenWarmUpIsLonger) {
  expect_rates(plan(5, 10, 0.1), {0.0001, 0.01009, 0.02008, 0.03007, 0.04006});
}
TEST(PolynomialSchedule, TakesWarmUpOfAllEpochs) {
  expect_rates(plan(2, 2, 0.1), {0.0001, 0.05005});
}
TEST(PolynomialSchedule, TakesATinyPeak) {
  expect_rates(plan(5, 0, 1e-5), {1e-5, 6.436e-6, 3.664e-6, 1.684e-6, 4.96e-7});
}

SchedulePlan named(const char* name, SchedulePlan plan) {
  plan.name = name;
  return plan;
}

// torch.optim.lr_scheduler.CosineAnnealingLR(lr=0.1, T_max=4, eta_min=1e-7).
TEST(CosineSchedule, FallsByHalfACosine) {
  expect_rates(named("cosine", plan(4, 0, 0.1)),
               {0.1, 0.08535535370398832, 0.05000005, 0.014644746296011686});
  EXPECT_NEAR(rate(named("cosine", plan(1, 0, 0.1, 4)), 2), 0.05000005, 1e-12);
}

TEST(CosineSchedule, WarmsUpForAPartOfAnEpoch) {
  const SchedulePlan warm = named("cosine", plan(2, 0.5, 0.1, 4));
  EXPECT_DOUBLE_EQ(rate(warm, 0), 1e-4);
  EXPECT_DOUBLE_EQ(rate(warm, 2), 0.1);
  EXPECT_NEAR(rate(warm, 5), 0.05000005, 1e-12);
}

// With --steps 5 of 15 an epoch, and no --epochs.
TEST(CosineSchedule, CoversAPartOfAnEpoch) {
  const SchedulePlan part = named("cosine", plan(5.0 / 15, 0.1, 0.1, 15));
  EXPECT_DOUBLE_EQ(rate(part, 0), 1e-4);
  EXPECT_NEAR(rate(part, 4), 0.1 * (1 + std::cos(std::numbers::pi * 2.5 / 3.5)) / 2, 1e-6);
}

TEST(PolynomialSchedule, HasOneRateForThePartOfAnEpochToo) {
  for (const int step : {0, 3, 4, 5})
    EXPECT_EQ(rate(plan(1.5, 0, 0.1, 4), step), rate(plan(2, 0, 0.1, 4), step)) << "step " << step;
}

TEST(ConstantSchedule, StaysAtThePeakAfterWarmUp) {
  expect_rates(named("constant", plan(4, 1, 0.1)), {1e-4, 0.1, 0.1, 0.1});
}

TEST(Schedule, RefusesANameThatIsInNoRow) {
  EXPECT_THROW(rate({.name = "sawtooth"}, 0), InternalError);
}

}  // namespace
}  // namespace kiln
