#include "train/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

std::vector<double> rates(const Schedule& schedule) {
  std::vector<double> all;
  for (int epoch = 0; epoch < schedule.epochs; ++epoch) all.push_back(schedule.rate(epoch));
  return all;
}

void expect_rates(const Schedule& schedule, const std::vector<double>& expected) {
  const std::vector<double> found = rates(schedule);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-12) << "epoch " << i + 1;
}

// The expected rates were computed by the component that this program re-implements.
TEST(Schedule, FallsByThePolynomial) {
  expect_rates({5, 0, 0.001}, {0.001, 0.000640036, 0.000360064, 0.000160084, 0.000040096});
}
TEST(Schedule, WarmsUpFirst) {
  expect_rates({6, 2, 0.1}, {0.0001, 0.05005, 0.1, 0.05625004375, 0.025000075, 0.00625009375});
}
TEST(Schedule, NeverReachesThePeakWhenWarmUpIsLonger) {
  expect_rates({5, 10, 0.1}, {0.0001, 0.01009, 0.02008, 0.03007, 0.04006});
}
TEST(Schedule, WarmUpOfAllEpochsIsFine) {
  expect_rates({2, 2, 0.1}, {0.0001, 0.05005});
}
TEST(Schedule, TinyPeak) {
  expect_rates({5, 0, 1e-5}, {1e-5, 6.436e-6, 3.664e-6, 1.684e-6, 4.96e-7});
}

}  // namespace
}  // namespace kiln
