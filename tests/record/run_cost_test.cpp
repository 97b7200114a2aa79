#include "record/run_summary.h"

#include <gtest/gtest.h>

#include "report/sample_run.h"

namespace kiln {
namespace {

RunRecord run_at(const std::string& price) {
  RunRecord run = sample_run(4);
  run.start.options.emplace_back("price-per-hour", price);
  run.end.total_seconds = 1800;
  return run;
}

TEST(RunCost, IsThatOfTheTimeInWhichItRan) {
  EXPECT_EQ(cost_text(run_at("3.06")), "1.53 (30 min 00 s at 3.06 an hour)");
  EXPECT_EQ(cost_text(sample_run(4)), "") << "without a price";
  EXPECT_EQ(cost_text(run_at("")), "");
}

TEST(RunCost, OfARunWithEpochsToComeIsAlsoForecast) {
  RunRecord run = run_at("360");
  run.start.num_epochs = 14;
  run.epochs.back().time = 1005;
  StepRecord step;
  step.time = 1000;
  step.seconds_left = 125;
  run.steps.push_back(step);
  run.end.total_seconds = 60;
  EXPECT_EQ(cost_text(run).find("about"), std::string::npos) << "it has ended";
  run.end.status = RunStatus::kStopped;
  EXPECT_NE(cost_text(run).find("6.00 ("), std::string::npos) << cost_text(run);
  EXPECT_NE(cost_text(run).find(", about 18.00 in total"), std::string::npos) << cost_text(run);
  run.epochs.clear();
  EXPECT_EQ(cost_text(run).find("about"), std::string::npos) << "nothing is known of an epoch";
}

TEST(RunCost, TakesNothingElseForAPrice) {
  for (const char* text : {"nan", "inf", "-3", "0", "1e9", "free", "auto"})
    EXPECT_EQ(price_per_hour(run_at(text).start), 0) << text;
  EXPECT_EQ(price_per_hour(run_at("1e-1").start), 0.1);
}

TEST(RunCost, SmallPricesKeepTheirDigits) {
  EXPECT_EQ(price_text(12.3), "12.30");
  EXPECT_EQ(price_text(0.00421), "0.0042");
}

}  // namespace
}  // namespace kiln
