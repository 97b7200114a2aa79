// The steps of a run on a timeline, without a network.
#include "train/step_clock.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

// As TrainEpoch makes one.
void make_step(StepTrace& trace, StepClock& clock) {
  trace.before_step(clock);
  for (const auto part : {&StepTimes::data_wait, &StepTimes::forward, &StepTimes::backward,
                          &StepTimes::communication, &StepTimes::optimizer})
    clock.begin(part);
  clock.stop();
  trace.after_step(clock);
}

class StepTraceTest : public testing::Test {
 protected:
  int count(const std::string& part) const {
    const std::string text = timeline_.json(0);
    int found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  Timeline timeline_;
  StepTrace trace_{timeline_};
};

TEST_F(StepTraceTest, DrawsStepsOfAllEpochs) {
  for (int epoch = 1; epoch <= 5; ++epoch) {
    StepClock clock(at::kCPU);
    for (int step = 1; step <= 9; ++step) make_step(trace_, clock);
    trace_.before_step(clock);  // there is no batch left
    clock.begin(&StepTimes::data_wait);
  }
  EXPECT_EQ(trace_.steps(), 45);
  EXPECT_EQ(count("\"step "), StepTrace::kLast - StepTrace::kFirst + 1);
  for (const char* step : {"\"step 20\"", "\"step 40\""}) EXPECT_EQ(count(step), 1) << step;
  for (const char* phase : {"\"wait for images\"", "\"wait for all-reduce\""})
    EXPECT_EQ(count(phase), 21) << phase;
  for (const char* phase : {"\"forward\"", "\"backward\"", "\"optimizer\""})
    EXPECT_EQ(count(phase), 2 * 21) << phase << " of the host, and of the device";
  EXPECT_FALSE(timeline_.is_on());
}

TEST_F(StepTraceTest, DrawsNothingBefore) {
  StepClock clock(at::kCPU);
  for (int step = 1; step < StepTrace::kFirst; ++step) make_step(trace_, clock);
  EXPECT_FALSE(timeline_.is_on());
  EXPECT_FALSE(clock.is_traced());
  EXPECT_EQ(count("\"ph\":\"X\""), 0);
}

}  // namespace
}  // namespace kiln
