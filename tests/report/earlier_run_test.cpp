// What a run leaves of the files of the run before it in the same log folder.
#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "record/run_file.h"
#include "report/page/page.h"
#include "report/run_samples.h"
#include "report/sinks.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class EarlierRun : public testing::Test {
 protected:
  EarlierRun() {
    fs::create_directories(folder_);
    record(1e9, /*num_epochs=*/2, RunStatus::kFinished);
    before_ = files();
  }
  ~EarlierRun() override { fs::remove_all(folder_); }

  void begin(RunReporter& run, double time) {
    run.add([&] { return make_run_file(folder_ / kRunFileName); });
    run.add([&] { return make_epochs_csv(folder_ / kEpochsFileName); });
    run.add([&] { return make_tensorboard(folder_ / "tensorboard"); });
    run.add([&] { return make_html_report(folder_ / kReportName, run.run()); });
    RunStart start = hostile_run().start;
    start.time = time;
    run.start(start);
    run.step(hostile_run().steps[0]);
  }

  RunRecord record(double time, std::size_t num_epochs, RunStatus status) {
    RunReporter run(log_);
    begin(run, time);
    for (std::size_t i = 0; i < num_epochs; ++i) run.epoch(hostile_run().epochs[i], nullptr);
    RunEnd end = hostile_run().end;
    end.status = status;
    run.end(end);
    EXPECT_TRUE(run.run().losses.empty()) << testing::PrintToString(run.run().losses);
    return run.run();
  }

  // By name.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file())
        files[fs::relative(entry.path(), folder_).string()] = read_file(entry.path());
    return files;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("earlier_run_" + std::to_string(::getpid()));
  Log log_;
  std::map<std::string, std::string> before_;
};

TEST_F(EarlierRun, StaysAsItWasWhereTheNextOneFinishesNoEpoch) {
  ASSERT_EQ(before_.size(), 4U);
  record(2e9, /*num_epochs=*/0, RunStatus::kFailed);
  auto after = files();
  const std::string failed = after.extract("metrics.jsonl.next").mapped();
  EXPECT_EQ(after, before_);
  EXPECT_EQ(parse_run(failed).end.status, RunStatus::kFailed);
  EXPECT_EQ(read_run(folder_).start.time, 1e9);
}

TEST_F(EarlierRun, StaysAsItWasWhereTheNextOneIsKilledInItsFirstEpoch) {
  {
    RunReporter second(log_);
    begin(second, 2e9);
  }
  const auto after = files();
  for (const auto& [name, bytes] : before_) EXPECT_EQ(after.at(name), bytes) << name;
}

TEST_F(EarlierRun, IsReplacedByTheFirstEpoch) {
  record(2e9, /*num_epochs=*/0, RunStatus::kFailed);
  RunReporter third(log_);
  begin(third, 3e9);
  third.epoch(hostile_run().epochs[0], nullptr);
  EXPECT_EQ(read_run(folder_).start.time, 3e9);
  third.end(hostile_run().end);
  const auto after = files();
  EXPECT_EQ(after.size(), before_.size());
  for (const auto& [name, bytes] : before_)
    EXPECT_TRUE(!after.contains(name) || after.at(name) != bytes) << name;
  EXPECT_TRUE(third.run().losses.empty());
}

TEST_F(EarlierRun, IsWrittenOverWhereItFinishedNoEpochEither) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  record(1e9, /*num_epochs=*/0, RunStatus::kFailed);
  const RunRecord second = record(2e9, /*num_epochs=*/0, RunStatus::kFailed);
  EXPECT_EQ(read_run(folder_).start.time, 2e9);
  EXPECT_EQ(files().at(kReportName), report_html(second));
  EXPECT_FALSE(fs::exists(next_record(folder_ / kRunFileName)));
}

}  // namespace
}  // namespace kiln
