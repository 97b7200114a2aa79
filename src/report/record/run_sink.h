// Where a run's numbers go, and what hands them there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "report/record/run_record.h"

namespace kiln {

// Somewhere that a run's numbers go: the console, a file, a tracking server. Rank 0 has them all,
// the others the console's, which is their driver log.

// Calls come from the training thread, in the order of the run, and should return at once: what is
// slow belongs on a thread of the sink's own. A sink may throw anything: RunReporter then warns
// once, counts what was lost, and training goes on. After a start() that
// threw the sink is told nothing more.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual std::string_view name() const = 0;  // as warnings name it: "metrics.jsonl", "MLflow"

  virtual void start(const RunStart& /*start*/) {}
  virtual void step(const StepRecord& /*step*/) {}
  // After every step, printed or not, and after every batch of validation: time and place alone.
  virtual void progress(const StepRecord& /*timing*/) {}
  virtual void validating(const StepRecord& /*at*/) {}
  virtual void warning(const std::string& /*text*/) {}
  // `details` is there for an epoch whose model is kept, else nullptr.
  virtual void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) {}
  // Once, last; `run` is the whole of it. Sinks end in the order in which they were added, so a
  // later one may send the files of those before.
  virtual void end(const RunRecord& /*run*/) {}

  // What was lost without an exception (sent in the background), for the closing block: "12 of 340
  // points could not be sent: connection refused". Asked after end(); empty: nothing.
  virtual std::string lost() const { return {}; }
};

// Hands a run's numbers, and the log's warnings, to every sink, and keeps them. No sink can stop
// training.

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
  void epoch(const EpochRecord& epoch, const ValidationDetails* details);
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
