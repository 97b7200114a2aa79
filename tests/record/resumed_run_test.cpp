// A run that went on from a checkpoint leaves what an undisturbed one leaves.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/tfrecord.h"
#include "record/picture_file.h"
#include "record/run_file.h"
#include "record/run_summary.h"
#include "report/page/page.h"
#include "report/run_samples.h"
#include "report/sinks.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class ResumedRun : public testing::Test {
 protected:
  ResumedRun() {
    run_.warnings.clear();
    run_.epochs[1].valid_in_train.reset();
  }
  ~ResumedRun() override { fs::remove_all(place_); }

  fs::path folder(const std::string& name) const {
    fs::create_directories(place_ / name);
    return place_ / name;
  }

  std::unique_ptr<RunReporter> reporter(const fs::path& folder) {
    auto run = std::make_unique<RunReporter>(log_);
    run->add([&] { return make_run_file(folder / kRunFileName); }, folder);
    run->add([&] { return make_epochs_csv(folder / kEpochsFileName); }, folder);
    run->add([&] { return make_tensorboard(folder / "tensorboard"); }, folder);
    run->add([&] { return make_html_report(folder / kReportName, run->run()); }, folder);
    return run;
  }

  // Two epochs with a printed step each; both are kept, so that their details count too.
  void tell(RunReporter& run, int begin, int end) const {
    for (int i = begin; i < end; ++i) {
      const auto epoch = static_cast<std::size_t>(i / 2);
      ValidationDetails details = run_.details;
      details.epoch = static_cast<int>(epoch) + 1;
      if (i % 2 == 0)
        run.step(run_.steps[epoch]);
      else
        run.epoch(run_.epochs[epoch], &details);
    }
  }

  std::unique_ptr<RunReporter> whole_run(const fs::path& folder) {
    auto run = reporter(folder);
    run->start(run_.start);
    tell(*run, 0, 4);
    run->end(run_.end);
    return run;
  }

  // Is killed after `killed` of four events, and goes on from a checkpoint made after `kept`.
  std::unique_ptr<RunReporter> resumed_run(const fs::path& folder, int kept, int killed) {
    std::string text;
    {
      const auto first = reporter(folder);
      first->start(run_.start);
      tell(*first, 0, kept);
      text = first->record_text();
      tell(*first, kept, killed);
    }
    auto run = reporter(folder);
    RunStart start = run_.start;
    start.time += 1000;
    run->resume(start, text, sample_interruption(), folder / kPicturesName);
    tell(*run, kept, 4);
    run->end(run_.end);
    EXPECT_TRUE(run->run().losses.empty()) << testing::PrintToString(run->run().losses);
    return run;
  }

  static std::vector<fs::path> event_files(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder / "tensorboard"))
      if (entry.file_size() > 0) files.push_back(entry.path());
    return files;
  }

  const fs::path place_ =
      fs::path(testing::TempDir()) / ("resumed_run_" + std::to_string(::getpid()));
  Log log_;
  RunRecord run_ = hostile_run();
};

std::string without_resume_lines(const std::string& text) {
  std::string rest;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = text.find('\n', begin) + 1;
    const std::string line = text.substr(begin, end - begin);
    if (!line.starts_with(R"({"event":"resume")")) rest += line;
  }
  return rest;
}

TEST_F(ResumedRun, LeavesTheFilesOfAnUndisturbedOne) {
  const fs::path whole = folder("whole");
  whole_run(whole);
  for (const auto& [kept, killed] : {std::pair{0, 1}, {1, 1}, {1, 4}, {2, 2}, {3, 4}}) {
    SCOPED_TRACE(kept);
    const fs::path resumed = folder("resumed" + std::to_string(kept) + std::to_string(killed));
    resumed_run(resumed, kept, killed);
    const std::string record = read_file(resumed / kRunFileName);
    EXPECT_EQ(without_resume_lines(record), read_file(whole / kRunFileName));
    EXPECT_EQ(read_file(resumed / kEpochsFileName), read_file(whole / kEpochsFileName));
    RunRecord run = parse_run(record);
    EXPECT_EQ(read_pictures(resumed / kPicturesName, &run), "");
    EXPECT_EQ(run.details.pictures.size(), 1U);
    ASSERT_EQ(run.interruptions.size(), 1U);
    EXPECT_EQ(run.interruptions[0].host, "node8");
    EXPECT_EQ(read_file(resumed / kReportName), report_html(run));
    run.interruptions.clear();
    EXPECT_EQ(report_html(run), read_file(whole / kReportName));
  }
}

TEST_F(ResumedRun, GivesTensorboardOneFileThatForgetsTheOldOne) {
  const fs::path whole = folder("whole"), resumed = folder("resumed");
  whole_run(whole);
  const fs::path old = event_files(whole).at(0);
  const std::string told = read_file(old);
  resumed_run(resumed, 1, 3);
  ASSERT_EQ(event_files(resumed).size(), 1U);
  EXPECT_EQ(std::distance(fs::directory_iterator(resumed / "tensorboard"), {}), 1);
  const fs::path file = event_files(resumed)[0];
  EXPECT_GT(file.filename(), old.filename()) << "it is read after the old one";
  const std::string start = tfrecord(ProtoMessage()
                                         .real(1, sample_interruption().time)
                                         .integer(2, 0)
                                         .message(7, ProtoMessage().integer(1, 1))
                                         .bytes());
  const std::string text = read_file(file);
  const std::size_t head =
      tfrecord(ProtoMessage().real(1, 0).text(3, "brain.Event:2").bytes()).size();
  EXPECT_EQ(text.substr(head, start.size()), start);
  EXPECT_EQ(text.substr(head + start.size()), told.substr(head));
}

TEST_F(ResumedRun, LeavesAnEarlierRunsFilesUntilItsFirstEpoch) {
  const fs::path logs = folder("logs");
  const RunStart own = run_.start;
  run_.start.time -= 500;
  whole_run(logs);
  run_.start = own;
  const std::string before = read_file(logs / kRunFileName), page = read_file(logs / kReportName);
  std::string text;
  {
    const auto first = reporter(logs);
    first->start(run_.start);
    tell(*first, 0, 1);
    text = first->record_text();
  }
  const auto second = reporter(logs);
  second->resume(run_.start, text, sample_interruption());
  EXPECT_EQ(read_file(logs / kRunFileName), before);
  EXPECT_EQ(read_file(logs / kReportName), page);
  EXPECT_EQ(parse_run(read_file(next_record(logs / kRunFileName))).steps.size(), 1U);
  EXPECT_EQ(event_files(logs).size(), 2U) << "the earlier run's, and its own newest";
  tell(*second, 1, 2);
  EXPECT_EQ(read_run(logs).start.time, run_.start.time);
  EXPECT_FALSE(fs::exists(next_record(logs / kRunFileName)));
  EXPECT_EQ(event_files(logs).size(), 1U);
}

TEST_F(ResumedRun, OfManyStepsKeepsFewerAndFewer) {
  constexpr int kSteps = 400'000, kEpoch = 1000;
  const auto tell_steps = [&](RunReporter& run, int begin, int end) {
    StepRecord step = run_.steps[0];
    step.num_steps = kEpoch;
    for (int i = begin; i < end; ++i) {
      step.epoch = i / kEpoch + 1;
      step.step = i % kEpoch + 1;
      run.step(step);
    }
  };
  RunReporter whole(log_), first(log_), second(log_);
  whole.add([&] { return make_run_file(folder("whole") / kRunFileName); });
  second.add([&] { return make_run_file(folder("second") / kRunFileName); });
  for (RunReporter* run : {&whole, &first}) run->start(run_.start);
  tell_steps(whole, 0, kSteps);
  tell_steps(first, 0, kSteps / 2);
  const std::string checkpoint = first.record_text();
  second.resume(run_.start, checkpoint, {.epoch = kSteps / kEpoch / 2});
  tell_steps(second, kSteps / 2, kSteps);
  EXPECT_LT(whole.run().steps.size(), 30'000U);
  EXPECT_GT(whole.run().steps.size(), 20'000U);
  EXPECT_EQ(global_step(whole.run().steps[7000]), 7001);
  for (const char* name : {"whole", "second"}) {
    const RunRecord read = read_run(folder(name));
    ASSERT_EQ(read.steps.size(), whole.run().steps.size()) << name;
    EXPECT_EQ(global_step(read.steps.back()), global_step(whole.run().steps.back())) << name;
  }
  EXPECT_LT(checkpoint.size(), whole.record_text().size());
}

TEST_F(ResumedRun, MayBeInterruptedAgain) {
  RunReporter first(log_), second(log_), third(log_);
  first.start(run_.start);
  tell(first, 0, 1);
  second.resume(run_.start, first.record_text(), sample_interruption());
  tell(second, 1, 2);
  third.resume(run_.start, second.record_text() + usage_line(run_.end), sample_interruption());
  EXPECT_EQ(third.run().interruptions.size(), 2U);
  EXPECT_EQ(third.run().steps.size(), 1U);
  EXPECT_EQ(third.run().epochs.size(), 1U);
  EXPECT_EQ(third.run().end.saved_epoch, 2);
  EXPECT_EQ(third.run().end.total_seconds, 30);
  EXPECT_EQ(third.run().end.peak_memory_bytes, 500'000'000);
  EXPECT_EQ(third.run().end.status, RunStatus::kRunning);
  EXPECT_EQ(parse_run(third.record_text()).interruptions.size(), 2U);
  EXPECT_EQ(third.record_text().find("\"usage\""), std::string::npos);
}

TEST_F(ResumedRun, KeepsItsFirstStartAndTakesTheNewOptions) {
  RunReporter first(log_), second(log_);
  first.start(run_.start);
  RunStart start = run_.start;
  start.time += 1000;
  start.num_epochs = 7;
  second.resume(start, first.record_text(), sample_interruption());
  const RunRecord read = parse_run(second.record_text());
  EXPECT_EQ(read.start.time, run_.start.time);
  EXPECT_EQ(read.start.num_epochs, 7);
}

TEST_F(ResumedRun, KnowsTheLengthThatWasDecidedMeanwhile) {
  RunReporter first(log_), second(log_);
  first.start(run_.start);
  first.planned({.time = 1, .num_epochs = 4, .reason = "30min: 4 epochs fit"});
  const RunRecord read = parse_run(first.record_text());
  EXPECT_EQ(read.start.num_epochs, 4);
  EXPECT_EQ(read.start.plan.back().second, "30min: 4 epochs fit");
  second.resume(read.start, first.record_text(), sample_interruption());
  const RunRecord again = parse_run(second.record_text());
  EXPECT_EQ(again.start.num_epochs, 4);
  EXPECT_EQ(again.start.plan, read.start.plan) << "once";
}

TEST_F(ResumedRun, RecordsAWarningOnce) {
  RunReporter first(log_), second(log_);
  testing::internal::CaptureStdout();
  log_.warning("of the plan");
  first.start(run_.start);
  log_.warning("of the plan");
  log_.warning("of the checkpoint");
  second.resume(run_.start, first.record_text(), sample_interruption());
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(second.run().warnings, (std::vector<std::string>{"of the plan", "of the checkpoint"}));
  EXPECT_EQ(parse_run(second.record_text()).warnings, second.run().warnings);
}

TEST_F(ResumedRun, RefusesABrokenRecordBeforeAnythingIsTold) {
  const fs::path logs = folder("logs");
  whole_run(logs);
  const std::string before = read_file(logs / kRunFileName);
  for (const std::string text :
       {"", "no record\n", "{\"event\":\"step\"}\n", "{\"event\":\"start\""}) {
    const auto run = reporter(logs);
    EXPECT_THROW(run->resume(run_.start, text, {}), Error) << text;
  }
  EXPECT_EQ(read_file(logs / kRunFileName), before);
}

TEST_F(ResumedRun, KeepsItsTextWhereNoFileCanBeWritten) {
  RunReporter told(log_), lost(log_);
  const fs::path logs = folder("logs");
  fs::create_directories(logs / kRunFileName);
  lost.add([&] { return make_run_file(logs / kRunFileName); });
  testing::internal::CaptureStdout();
  for (RunReporter* run : {&told, &lost}) run->start(run_.start);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find(kRunFileName), std::string::npos);
  tell(told, 0, 4);
  EXPECT_EQ(parse_run(told.record_text()).epochs.size(), 2U);
  log_.take_warnings();
  tell(lost, 0, 4);
  EXPECT_EQ(parse_run(lost.record_text()).epochs.size(), 2U);
}

class Stateful : public RunSink {
 public:
  explicit Stateful(std::string state) : state_(std::move(state)) {}
  std::string_view name() const override { return "tracker"; }
  std::string state() const override { return state_; }

 private:
  std::string state_;
};

TEST_F(ResumedRun, FindsTheStateOfItsSinks) {
  RunReporter first(log_), second(log_), third(log_);
  first.add([] { return std::make_unique<Stateful>("run 7"); });
  second.add([] { return std::make_unique<Stateful>(""); });  // the server has not answered yet
  third.add([] { return std::make_unique<Stateful>("run 8"); });
  first.start(run_.start);
  second.resume(run_.start, first.record_text(), sample_interruption());
  EXPECT_EQ(second.run().sink_states, (TextPairs{{"tracker", "run 7"}}));
  third.resume(run_.start, second.record_text(), sample_interruption());
  EXPECT_EQ(third.run().sink_states, (TextPairs{{"tracker", "run 7"}}));
  EXPECT_EQ(parse_run(third.record_text()).sink_states, (TextPairs{{"tracker", "run 8"}}));
}

TEST_F(ResumedRun, LosesWhatTheOldRecordHasBeyondTheCheckpoint) {
  const fs::path logs = folder("logs");
  {
    const auto first = reporter(logs);
    first->start(run_.start);
    tell(*first, 0, 3);  // to step 1 of epoch 2, of 3 steps
  }
  Interruption stop{.epoch = 1, .step = 2, .checkpoint_time = 1e9 + 5};
  add_lost_work(find_record(logs / kRunFileName, run_.start.time), &stop);
  EXPECT_EQ(stop.lost_steps, 2);
  EXPECT_EQ(stop.last_seen, 1e9 + 10);
  EXPECT_EQ(stop.lost_seconds, 5);
  Interruption none{.epoch = 2, .step = 2, .checkpoint_time = 1e9 + 50};
  add_lost_work(find_record(logs / kRunFileName, run_.start.time), &none);
  EXPECT_EQ(none.lost_steps, 0);
  EXPECT_EQ(none.lost_seconds, 0);
  EXPECT_FALSE(find_record(logs / kRunFileName, run_.start.time + 1)) << "another run's";
  EXPECT_FALSE(find_record(logs / "nothing", run_.start.time));
}

TEST_F(ResumedRun, TellsARemovedFolderOnce) {
  const fs::path logs = folder("logs");
  const auto run = reporter(logs);
  run->start(run_.start);
  tell(*run, 0, 1);
  fs::remove_all(logs);
  testing::internal::CaptureStdout();
  tell(*run, 1, 4);
  run->end(run_.end);
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(run->run().warnings.size() + log_.take_warnings().size(), 1U);
  EXPECT_EQ(run->run().losses.size(), 4U);
  EXPECT_EQ(parse_run(run->record_text()).epochs.size(), 2U);
}

}  // namespace
}  // namespace kiln
