#include "report/console.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "report/page/page.h"
#include "report/run_samples.h"

namespace kiln {
namespace {

// The console output of a run without a terminal. `driver_log`: empty for none.
std::string told(const RunRecord& run, const std::filesystem::path& driver_log = {}) {
  testing::internal::CaptureStdout();
  {
    Log log;
    if (!driver_log.empty()) log.open_file(driver_log);
    const auto console = make_console(log, "logs/report.html");
    console->start(run.start);
    for (const StepRecord& step : run.steps) {
      console->step(step);
      console->progress(step);
    }
    for (const EpochRecord& epoch : run.epochs) console->epoch(epoch, nullptr);
    console->end(run);
  }
  return testing::internal::GetCapturedStdout();
}

int count_of(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

RunRecord finished_run() {
  RunRecord run = hostile_run();
  run.start.plan = {{"model", "a network"}, {"device", "a processor"}};
  run.end.status = RunStatus::kFinished;
  run.end.saved_epoch = run.epochs.back().epoch;
  run.end.model_path = "out/model";
  return run;
}

TEST(Console, AResumedRunShowsItsPlanAndWhereItGoesOnButNoOldSteps) {
  RunRecord run = finished_run();
  run.text = run_line(run.start) + run_line(run.steps[0]);
  run.interruptions = {sample_interruption()};
  testing::internal::CaptureStdout();
  {
    Log log;
    const auto console = make_console(log, {});
    console->resume(run);
    console->end(run);
  }
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("model:            a network\n"), std::string::npos) << text;
  EXPECT_NE(text.find("resuming:         epoch 2, step 1"), std::string::npos) << text;
  EXPECT_NE(text.find("  resumed           once; 2 steps (5.0 s)"), std::string::npos) << text;
  EXPECT_EQ(count_of(text, "Avg_Loss_Batch"), 0);
}

TEST(Console, ShowsThePlanALineForEveryEpochAndTheResult) {
  const RunRecord run = finished_run();
  const std::filesystem::path log_file = std::filesystem::path(testing::TempDir()) / "console.txt";
  const std::string text = told(run, log_file);
  EXPECT_NE(text.find("model:            a network\n"), std::string::npos) << text;
  EXPECT_EQ(count_of(text, "Avg_Loss_Batch"), 0);
  EXPECT_EQ(count_of(text, ",train_ips "), static_cast<int>(run.epochs.size()));
  EXPECT_EQ(count_of(text, "learning rate "), 1) << "of the table";
  const std::string log = read_file(log_file, 1 << 20);
  EXPECT_EQ(count_of(log, "Avg_Loss_Batch"), static_cast<int>(run.steps.size()));
  EXPECT_EQ(count_of(log, ",train_ips "), static_cast<int>(run.epochs.size()));
  EXPECT_NE(text.find("out/model"), std::string::npos);
  EXPECT_EQ(text.find("report.html"), std::string::npos) << "no sink has written it";
}

TEST(Console, NamesThePageAndTheLossesOfOtherSinks) {
  RunRecord run = finished_run();
  run.whole_sinks = {kReportName};
  run.losses = {"MLflow: 3 points could not be sent"};
  const std::string text = told(run);
  EXPECT_NE(text.find("logs/report.html"), std::string::npos);
  EXPECT_NE(text.find("MLflow: 3 points could not be sent"), std::string::npos);
}

TEST(Console, ShowsLossesButNoResultForARunWithoutAModel) {
  RunRecord run = finished_run();
  run.end.model_path.clear();
  run.losses = {"epochs.csv: 1 record lost"};
  const std::string text = told(run);
  EXPECT_EQ(text.find("saved epoch"), std::string::npos);
  EXPECT_NE(text.find("lost: epochs.csv"), std::string::npos);
}

}  // namespace
}  // namespace kiln
