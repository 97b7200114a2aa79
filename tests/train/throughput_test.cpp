// Throughput, with times by hand: what the host sees of a CPU and of a GPU.
#include "train/throughput.h"

#include <gtest/gtest.h>

#include <chrono>

namespace kiln {
namespace {

using std::chrono::milliseconds;

class ThroughputTest : public testing::Test {
 protected:
  Throughput::Time at(int ms) const { return begin_ + milliseconds(ms); }
  Throughput on_cpu() { return {epoch_, /*is_queued=*/false, 1, begin_}; }
  Throughput on_gpu(int batches_per_step = 1) {
    return {epoch_, /*is_queued=*/true, batches_per_step, begin_};
  }
  double average_images_per_second() const { return epoch_.weighted_rate / epoch_.images; }
  double average_seconds() const { return epoch_.weighted_seconds / epoch_.images; }

  const Throughput::Time begin_ = std::chrono::steady_clock::now();
  EpochSums epoch_{at::kCPU};
};

TEST_F(ThroughputTest, ACpuIsMeasuredAfterEachForwardPass) {
  Throughput throughput = on_cpu();
  throughput.forwarded(10, at(100));
  EXPECT_DOUBLE_EQ(throughput.rates().batch_images_per_second, 100);
  throughput.forwarded(30, at(200));
  EXPECT_DOUBLE_EQ(throughput.rates().batch_images_per_second, 300);
  EXPECT_DOUBLE_EQ(throughput.rates().batch_seconds, 0.1);
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_images_per_second, (100 * 10 + 300 * 30) / 40.0);
  throughput.waited(at(900));  // changes nothing
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_images_per_second, average_images_per_second());
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_seconds, 0.1);
  EXPECT_DOUBLE_EQ(average_seconds(), 0.1);
}

// The host queues ten steps of 100 ms within 5 ms each, then waits for the device.
TEST_F(ThroughputTest, AGpuIsMeasuredWhereTheHostHasWaited) {
  Throughput throughput = on_gpu();
  for (int step = 1; step <= 10; ++step) {
    throughput.forwarded(8, at(5 * step));
    epoch_.steps = step;
    EXPECT_EQ(throughput.rates().batch_images_per_second, 0) << step;
  }
  throughput.waited(at(1000));
  EXPECT_DOUBLE_EQ(throughput.rates().batch_seconds, 0.1);
  EXPECT_DOUBLE_EQ(throughput.rates().batch_images_per_second, 80);
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_images_per_second, 80);
  throughput.forwarded(8, at(1005));
  epoch_.steps = 11;
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_images_per_second, 80);  // as of the last wait
  throughput.waited(at(1050));
  EXPECT_DOUBLE_EQ(throughput.rates().batch_images_per_second, 160);
  // Images of the epoch over its time.
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_images_per_second, 88 / 1.05);
  EXPECT_DOUBLE_EQ(average_images_per_second(), 88 / 1.05);
  EXPECT_DOUBLE_EQ(average_seconds(), 1.05 / 11);
  throughput.waited(at(5000));  // nothing was trained since
  EXPECT_DOUBLE_EQ(average_images_per_second(), 88 / 1.05);
}

TEST_F(ThroughputTest, AStepOfAGpuMayHaveSeveralBatches) {
  Throughput throughput = on_gpu(/*batches_per_step=*/2);
  throughput.forwarded(4, at(1));
  throughput.forwarded(4, at(2));
  epoch_.steps = 1;
  throughput.waited(at(100));
  EXPECT_DOUBLE_EQ(throughput.rates().batch_seconds, 0.05);
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_seconds, 0.05);
}

TEST_F(ThroughputTest, AnEpochThatGoesOnKeepsItsTime) {
  epoch_.steps = 5;
  epoch_.images = 50;
  epoch_.spent.seconds = 4;
  Throughput throughput = on_gpu();
  throughput.forwarded(10, at(10));
  epoch_.steps = 6;
  throughput.waited(at(1000));
  EXPECT_DOUBLE_EQ(throughput.rates().batch_images_per_second, 10);
  EXPECT_DOUBLE_EQ(throughput.rates().epoch_images_per_second, 60 / 5.0);
}

}  // namespace
}  // namespace kiln
