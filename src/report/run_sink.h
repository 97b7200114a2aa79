// Somewhere that a run's numbers go: the console, a file, a tracking server. Rank 0 has them all,
// the others the console's, which is their driver log.
#pragma once

#include <string>
#include <string_view>

#include "report/run_record.h"

namespace kiln {

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
  // `judgement` is there for an epoch whose model is kept, else nullptr.
  virtual void epoch(const EpochRecord& /*epoch*/, const Judgement* /*judgement*/) {}
  // Once, last; `run` is the whole of it. Sinks end in the order in which they were added, so a
  // later one may send the files of those before.
  virtual void end(const RunRecord& /*run*/) {}

  // What was lost without an exception (sent in the background), for the closing block: "12 of 340
  // points could not be sent: connection refused". Asked after end(); empty: nothing.
  virtual std::string lost() const { return {}; }
};

}  // namespace kiln
