#include "record/run_sink.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "report/run_samples.h"

namespace kiln {
namespace {

class Counter : public RunSink {
 public:
  explicit Counter(int* calls) : calls_(calls) {}
  std::string_view name() const override { return "counter"; }
  void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) override {
    ++*calls_;
  }
  void warning(const Warning& warning) override { *calls_ += warning.text == "look out" ? 100 : 0; }

 private:
  int* calls_;
};

class Broken : public RunSink {
 public:
  std::string_view name() const override { return "broken"; }
  void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) override {
    throw std::runtime_error("the disk is full.");
  }
};

TEST(RunReporter, AFailingSinkCausesOneWarningAndStopsNoOther) {
  Log log;
  RunReporter reporter(log);
  int calls = 0;
  reporter.add([] { return std::make_unique<Broken>(); });
  reporter.add([&] { return std::make_unique<Counter>(&calls); });
  reporter.add([]() -> std::unique_ptr<RunSink> { throw std::runtime_error("no such folder"); });
  const RunRecord run = hostile_run();
  testing::internal::CaptureStdout();
  reporter.start(run.start);
  reporter.epoch(run.epochs[0], nullptr);
  reporter.epoch(run.epochs[1], &run.details);
  reporter.end(run.end);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(said.find("the disk is full"), said.rfind("the disk is full"));
  EXPECT_EQ(
      reporter.run().losses,
      (std::vector<std::string>{"no such folder", "broken: 2 records lost: the disk is full."}));
  EXPECT_EQ(reporter.run().details.epoch, 2);
}

class NeverBegun : public Counter {
 public:
  using Counter::Counter;
  void start(const RunStart& /*start*/) override { throw std::runtime_error("no place for it."); }
};

TEST(RunReporter, ASinkThatCouldNotStartIsNotCalledAgain) {
  Log log;
  RunReporter reporter(log);
  int calls = 0;
  reporter.add([&] { return std::make_unique<NeverBegun>(&calls); });
  const RunRecord run = hostile_run();
  testing::internal::CaptureStdout();
  reporter.start(run.start);
  reporter.epoch(run.epochs[0], nullptr);
  reporter.end(run.end);
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(reporter.run().losses,
            std::vector<std::string>{"counter: 4 records lost: no place for it."});
}

// As if its thread still ran.
class NeverEnded : public RunSink {
 public:
  std::string_view name() const override { return "endless"; }
  void end(const RunRecord& /*run*/) override { throw std::runtime_error("no folder."); }
  std::string lost() const override { throw std::runtime_error("it has not ended"); }
};

TEST(RunReporter, ASinkThatDidNotEndIsNotAskedWhatItHasLost) {
  Log log;
  RunReporter reporter(log);
  reporter.add([] { return std::make_unique<NeverEnded>(); });
  testing::internal::CaptureStdout();
  reporter.start(hostile_run().start);
  reporter.end(hostile_run().end);
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(reporter.run().losses, std::vector<std::string>{"endless: 1 record lost: no folder."});
}

TEST(RunReporter, WarningsOfTheLogReachEverySink) {
  Log log;
  RunReporter reporter(log);
  int calls = 0;
  reporter.add([&] { return std::make_unique<Counter>(&calls); });
  testing::internal::CaptureStdout();
  log.warning("look out");
  reporter.start(hostile_run().start);
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(reporter.run().warnings, (std::vector<Warning>{{"look out"}}));
}

}  // namespace
}  // namespace kiln
