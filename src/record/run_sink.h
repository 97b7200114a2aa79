// Destinations of a run's record (sinks), and the reporter that feeds them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "record/run_record.h"

namespace kiln {

// A destination of a run's record: the console, a file, a tracking server. Rank 0 has all sinks;
// other ranks have only the console sink, which writes their driver log. Called from the training
// thread, in the order of the run; slow work belongs on the sink's own thread. A sink may throw
// anything: RunReporter then warns once and counts the lost records. If start() throws, the sink is
// not called again.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual std::string_view name() const = 0;  // for warnings: "metrics.jsonl", "MLflow"

  virtual void start(const RunStart& /*start*/) {}
  // Called instead of start() for a run that resumes from a checkpoint. `so_far` includes its
  // `text` and ends with the interruption. By default replays everything in the text, in order.
  virtual void resume(const RunRecord& so_far);
  // The number of epochs has been decided and differs from the one given to start().
  virtual void planned(const PlannedLength& /*length*/) {}
  virtual void step(const StepRecord& /*step*/) {}
  // After every step, printed or not, and after every validation batch: time and position only.
  virtual void progress(const StepRecord& /*timing*/) {}
  virtual void validating(const StepRecord& /*at*/) {}
  virtual void warning(const std::string& /*text*/) {}
  // `details` is nullptr unless the epoch's model is kept.
  virtual void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) {}
  // The details of the kept epoch have further pictures.
  virtual void pictures(const RunRecord& /*run*/) {}
  // Once, with the complete run. Sinks end in the order in which they were added, so a later one
  // may upload the files of earlier ones.
  virtual void end(const RunRecord& /*run*/) {}

  // Losses that caused no exception (in background uploads), for the closing block: "12 of 340
  // points could not be sent: connection refused"; empty if nothing was lost. Called after end(),
  // unless that threw.
  virtual std::string lost() const { return {}; }

  // What the sink needs to resume after an interruption. It is stored in checkpoints, and resume()
  // finds it in `so_far.sink_states`. Empty if nothing, or not known yet.
  virtual std::string state() const { return {}; }
};

// Keeps a run's record and the log's warnings and passes them to every sink, none of which can
// interrupt training. One thread. The log must outlive it.
class RunReporter {
 public:
  explicit RunReporter(Log& log) : log_(log) {}

  // A sink that cannot be created is reported as a warning and omitted. `folder`: where it writes.
  // If the folder is removed during the run, that is reported once for all sinks in it.
  void add(const std::function<std::unique_ptr<RunSink>()>& make,
           const std::filesystem::path& folder = {});

  void start(RunStart start);
  // Instead of start() for a run that resumes. `record_text` is what record_text() returned for the
  // checkpoint. The run keeps the time of its first start, and does not repeat recorded warnings.
  // The pictures of its best epoch are read from `pictures`. Throws Error kInvalidDataset, before
  // any sink is called, if the text is not such a record.
  void resume(RunStart start, const std::string& record_text, Interruption interruption,
              const std::filesystem::path& pictures = {});
  void planned(const PlannedLength& length);
  void step(const StepRecord& step);
  void progress(const StepRecord& timing);
  void validating(const StepRecord& at);
  void epoch(const EpochRecord& epoch, const ValidationDetails* details);
  // Adds a gallery to those of the kept epoch.
  void add_pictures(PictureList list);
  void end(RunEnd end);

  Log& log() { return log_; }
  const RunRecord& run() const { return run_; }
  // The run so far, for a checkpoint: the lines of the record file, even if the file could not be
  // written, and what sinks need to resume.
  std::string record_text() const;

 private:
  struct Guarded {
    std::unique_ptr<RunSink> sink;
    std::filesystem::path folder;
    int num_failed = 0;
    std::string first_failure = {};
    bool has_begun = true, has_ended = false;
  };
  using Call = std::function<void(RunSink&)>;
  // Progress is not part of the record, so missing it is not a loss.
  void notify(Guarded& guarded, const Call& call, bool is_record = true);
  void notify_all(const Call& call, bool is_record = true);
  void begin(const Call& call);
  void add_warnings();
  void add_warning(const std::string& text);
  void collect_losses();

  Log& log_;
  RunRecord run_;
  std::vector<Guarded> sinks_;
  std::vector<std::string> never_made_;  // why they could not be created
  std::set<std::filesystem::path> removed_folders_;
};

}  // namespace kiln
