// Hands a run's numbers, and the log's warnings, to every sink, and keeps them. No sink can stop
// training.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "report/run_sink.h"

namespace kiln {

// One thread. The log must outlive it.
class RunReporter {
 public:
  explicit RunReporter(Log& log) : log_(log) {}

  // A sink that cannot be made is warned of and left out.
  void add(const std::function<std::unique_ptr<RunSink>()>& make);

  void start(RunStart start);
  void step(const StepRecord& step);
  void progress(const StepRecord& timing);
  void validating(const StepRecord& at);
  void epoch(const EpochRecord& epoch, const Judgement* judgement);
  void end(RunEnd end);

  Log& log() { return log_; }
  const RunRecord& run() const { return run_; }

 private:
  struct Guarded {
    std::unique_ptr<RunSink> sink;
    int num_failed = 0;
    std::string first_failure;
    bool has_begun = true, has_ended = false;
  };
  // Progress is not a record: missing it is no loss.
  template <typename Call>
  void tell(Guarded& guarded, Call&& call, bool is_record);
  template <typename Call>
  void tell_all(Call&& call, bool is_record = true);
  void note_warnings();
  void note_losses();

  Log& log_;
  RunRecord run_;
  std::vector<Guarded> sinks_;
  std::vector<std::string> never_made_;  // why
};

}  // namespace kiln
