// Rates of training, with times by hand: what the host sees of a CPU and of a GPU.
#include "train/step_rates.h"

#include <gtest/gtest.h>

#include <chrono>

namespace kiln {
namespace {

using std::chrono::milliseconds;

class StepRatesTest : public testing::Test {
 protected:
  StepRates::Time at(int ms) const { return begin_ + milliseconds(ms); }
  StepRates on_cpu() { return {epoch_, /*is_queued=*/false, 1, begin_}; }
  StepRates on_gpu(int batches_per_step = 1) {
    return {epoch_, /*is_queued=*/true, batches_per_step, begin_};
  }
  double average_rate() const { return epoch_.weighted_rate / epoch_.images; }
  double average_seconds() const { return epoch_.weighted_seconds / epoch_.images; }

  const StepRates::Time begin_ = std::chrono::steady_clock::now();
  EpochSums epoch_{at::kCPU};
};

TEST_F(StepRatesTest, ACpuIsMeasuredAfterEachForwardPass) {
  StepRates rates = on_cpu();
  rates.forwarded(10, at(100));
  EXPECT_DOUBLE_EQ(rates.batch_rate(), 100);
  rates.forwarded(30, at(200));
  EXPECT_DOUBLE_EQ(rates.batch_rate(), 300);
  EXPECT_DOUBLE_EQ(rates.batch_seconds(), 0.1);
  EXPECT_DOUBLE_EQ(rates.epoch_rate(), (100 * 10 + 300 * 30) / 40.0);
  rates.waited(at(900));  // changes nothing
  EXPECT_DOUBLE_EQ(rates.epoch_rate(), average_rate());
  EXPECT_DOUBLE_EQ(rates.epoch_seconds(), 0.1);
  EXPECT_DOUBLE_EQ(average_seconds(), 0.1);
}

// The host queues ten steps of 100 ms within 5 ms each, then waits for the device.
TEST_F(StepRatesTest, AGpuIsMeasuredWhereTheHostHasWaited) {
  StepRates rates = on_gpu();
  for (int step = 1; step <= 10; ++step) {
    rates.forwarded(8, at(5 * step));
    epoch_.steps = step;
    EXPECT_EQ(rates.batch_rate(), 0) << step;
  }
  rates.waited(at(1000));
  EXPECT_DOUBLE_EQ(rates.batch_seconds(), 0.1);
  EXPECT_DOUBLE_EQ(rates.batch_rate(), 80);
  EXPECT_DOUBLE_EQ(rates.epoch_rate(), 80);
  rates.forwarded(8, at(1005));
  epoch_.steps = 11;
  EXPECT_DOUBLE_EQ(rates.epoch_rate(), 80);  // as of the last wait
  rates.waited(at(1050));
  EXPECT_DOUBLE_EQ(rates.batch_rate(), 160);
  EXPECT_DOUBLE_EQ(rates.epoch_rate(), 88 / 1.05);  // images of the epoch over its time
  EXPECT_DOUBLE_EQ(average_rate(), 88 / 1.05);
  EXPECT_DOUBLE_EQ(average_seconds(), 1.05 / 11);
  rates.waited(at(5000));  // nothing was trained since
  EXPECT_DOUBLE_EQ(average_rate(), 88 / 1.05);
}

TEST_F(StepRatesTest, AStepOfAGpuMayHaveSeveralBatches) {
  StepRates rates = on_gpu(/*batches_per_step=*/2);
  rates.forwarded(4, at(1));
  rates.forwarded(4, at(2));
  epoch_.steps = 1;
  rates.waited(at(100));
  EXPECT_DOUBLE_EQ(rates.batch_seconds(), 0.05);
  EXPECT_DOUBLE_EQ(rates.epoch_seconds(), 0.05);
}

TEST_F(StepRatesTest, AnEpochThatGoesOnKeepsItsTime) {
  epoch_.steps = 5;
  epoch_.images = 50;
  epoch_.spent.seconds = 4;
  StepRates rates = on_gpu();
  rates.forwarded(10, at(10));
  epoch_.steps = 6;
  rates.waited(at(1000));
  EXPECT_DOUBLE_EQ(rates.batch_rate(), 10);
  EXPECT_DOUBLE_EQ(rates.epoch_rate(), 60 / 5.0);
}

}  // namespace
}  // namespace kiln
