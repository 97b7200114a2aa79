#include "run/forecast.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

constexpr double kHour = 3600;

// 100 images a step, `step_seconds` each, after a first step of 5 s.
StepRecord printed(int step, double step_seconds) {
  StepRecord record;
  record.epoch = 1;
  record.num_epochs = 10;
  record.step = step;
  record.num_steps = 1000;
  record.elapsed_seconds = 5 + (step - 1) * step_seconds;
  return record;
}

// Ten epochs of 1,000 steps. Validation has 300 steps' worth of images, whose forward passes take
// as long as 100 steps.
RunLength length() {
  return {
      .epoch_steps = std::vector<double>(10, 1000), .images_per_step = 100, .valid_images = 30000};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Forecast, TellsOnceAfterTwentySteps) {
  Forecast forecast(length());
  EXPECT_FALSE(forecast.after_step(printed(1, 0.36)));
  EXPECT_FALSE(forecast.after_step(printed(11, 0.36)));
  const auto text = forecast.after_step(printed(21, 0.36));
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(text->line, "277.8 images/s")) << text->line;
  // 9979 steps and ten validations of 100: 1 h 06 min.
  EXPECT_TRUE(contains(text->line, "1 h 05 min") || contains(text->line, "1 h 06 min"))
      << text->line;
  EXPECT_EQ(text->warning, "");
  EXPECT_FALSE(forecast.after_step(printed(41, 0.36)));
}

TEST(Forecast, TellsCosts) {
  RunLength priced = length();
  priced.price_per_hour = 1;
  priced.seconds_before = kHour;  // of the run before it was resumed
  Forecast forecast(priced);
  forecast.after_step(printed(1, 3.6));
  const auto text = forecast.after_step(printed(21, 3.6));
  ASSERT_TRUE(text);
  // An hour, and what this process has used; 10979 steps of 3.6 s.
  EXPECT_TRUE(contains(text->line, "; cost 1.0")) << text->line;
  EXPECT_TRUE(contains(text->line, " so far, about 11.9") ||
              contains(text->line, " so far, about 12.0"))
      << text->line;
}

TEST(Forecast, WarnsOfDaysAndSaysWhatChangesThem) {
  Forecast forecast(length());
  forecast.after_step(printed(1, 20));
  const auto text = forecast.after_step(printed(21, 20));
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(text->warning, "2.5 days")) << text->warning;
  for (const char* way : {"GPU", "--image-size", "--model-name", "--ranks", "--time-limit"})
    EXPECT_TRUE(contains(text->warning, way)) << way;
}

TEST(Forecast, ShortEpochsTellAtTheEndOfOne) {
  RunLength short_epochs = length();
  short_epochs.epoch_steps.assign(11, 10);
  Forecast forecast(short_epochs);
  forecast.after_step(printed(1, 1));
  EpochRecord epoch;
  epoch.epoch = 1;
  epoch.num_steps = 10;
  epoch.train_images_per_second = 50;
  epoch.train_seconds = kHour;
  epoch.valid_seconds = kHour;
  const auto text = forecast.after_epoch(epoch);
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(text->line, "20 h 00 min")) << text->line;
}

TEST(Forecast, AWrongOneIsToldAgain) {
  Forecast forecast(length());
  forecast.after_step(printed(1, 0.36));
  ASSERT_TRUE(forecast.after_step(printed(21, 0.36)));
  EpochRecord epoch;
  epoch.epoch = 1;
  epoch.num_steps = 1000;
  epoch.train_images_per_second = 50;
  epoch.train_seconds = 400;  // as told: about an hour for nine such
  EXPECT_FALSE(forecast.after_epoch(epoch));
  epoch.train_seconds = 2000;
  const auto text = forecast.after_epoch(epoch);
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(text->line, "5 h ")) << text->line;
  EXPECT_FALSE(forecast.after_epoch(epoch));
}

TEST(Forecast, RunsOfAMinuteAreNotWorthIt) {
  Forecast forecast(length());
  forecast.after_step(printed(1, 0.001));
  EXPECT_FALSE(forecast.after_step(printed(21, 0.001)));
}

TEST(Forecast, ARunThatGoesOnCountsWhatIsLeft) {
  Forecast forecast(length());
  StepRecord late = printed(900, 0.36);
  late.epoch = 10;
  forecast.after_step(late);
  late = printed(920, 0.36);
  late.epoch = 10;
  const auto text = forecast.after_step(late);
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(text->line, "1 min 0")) << text->line;  // 80 steps and 100
}

// --steps 3500 of 10 epochs' 10,000.
TEST(Forecast, GivenStepsEndIt) {
  RunLength stopped = length();
  stopped.steps = 3500;
  stopped.epoch_steps = {1000, 1000, 1000, 500};
  Forecast forecast(stopped);
  forecast.after_step(printed(1, 1));
  const auto text = forecast.after_step(printed(21, 1));
  ASSERT_TRUE(text);
  // 3,479 steps and four validations of 100 s.
  EXPECT_TRUE(contains(text->line, "all 3,500 steps will finish in about 1 h 04 min"))
      << text->line;
}

TEST(Forecast, LargerValidationImagesTakeLonger) {
  RunLength larger = length();
  larger.valid_pixels = 4;
  Forecast forecast(larger);
  StepRecord step = printed(1000, 1);
  step.elapsed_seconds = 1000;
  // 9 x 1000 s and ten validations of 400 s.
  EXPECT_DOUBLE_EQ(forecast.seconds_left(step), 13000);

  EpochRecord epoch;
  epoch.epoch = 6;
  epoch.num_steps = 1000;
  epoch.train_seconds = 1000;
  epoch.valid_seconds = 300;
  forecast.after_epoch(epoch);
  step.epoch = 7;
  // Three epochs, and four validations as long as the last one.
  EXPECT_DOUBLE_EQ(forecast.seconds_left(step), 4200);
}

}  // namespace
}  // namespace kiln
