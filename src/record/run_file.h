// Writes and reads `metrics.jsonl`: the record of a run, one line per event. Every line is flushed
// at once, so the file is complete up to the moment a run is killed.
//
// Of a long run it holds fewer and fewer of the printed steps (is_recorded()), and so does the
// record in a checkpoint; readers of records of any length keep no more.
//
// Every line is a JSON object with "event": "start", "length", "step", "warning", "epoch", "resume"
// or "end", and "time" in Unix seconds. Numbers that are not finite are the strings "NaN",
// "Infinity" and "-Infinity".
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/run_record.h"
#include "record/run_sink.h"
#include "record/training_record.h"

namespace kiln {

inline constexpr const char* kRunFileName = "metrics.jsonl";

// Writes the record to `path`, replacing any earlier one. If an earlier run there has finished an
// epoch, its record is replaced only when this run has also finished one. Until then this run's
// record is `metrics.jsonl.next`, beside it, and stays there if the run ends earlier. A resumed
// run's record is cut back to its checkpoint and continued; it replaces the old one atomically. The
// sink's functions throw std::runtime_error.
std::unique_ptr<RunSink> make_run_file(const std::filesystem::path& path);

// Whether the record there is of a run that has finished an epoch and did not begin at `started`.
bool holds_other_run(const std::filesystem::path& path, double started);

// The path of `metrics.jsonl.next`, which exists only beside a record that is yet to be replaced.
std::filesystem::path next_record(const std::filesystem::path& path);

// The lines of a record, each with its newline. The same event always gives the same text.
std::string run_line(const RunStart& start);
std::string run_line(const PlannedLength& length);
std::string run_line(const StepRecord& step);
std::string run_line(const std::string& warning);
std::string run_line(const EpochRecord& epoch, const ValidationDetails* details);
std::string run_line(const RunEnd& end);

// Lines that occur only in the record inside a checkpoint.
std::string usage_line(const RunEnd& so_far);  // the fields known before the end
std::string state_line(const std::string& sink, const std::string& state);  // RunSink::state()

// The record of a run that resumes: a new start line, the lines of the checkpoint's record, and a
// line for the interruption.
std::string resumed_text(const RunStart& start, std::string_view record_text,
                         const Interruption& interruption);

// Updates a run's plan with a number of epochs decided after its start, and the reason.
void add_length(RunStart& start, const PlannedLength& length);

// Replays a valid record to a sink, except for its end.
void retell(std::string_view text, RunSink& sink);

// Parses `text`. Ignores an incomplete last line and unknown keys and events. Throws Error
// kInvalidDataset, with the position, if the text is not a run record.
RunRecord parse_run(std::string_view text);

// The folders in that of a run (--run-path).
inline constexpr const char *kModelOfRun = "model", *kLogsOfRun = "logs",
                            *kCheckpointsOfRun = "checkpoints";

// In a log folder: the model of the best epoch, of a run that has not saved one.
inline constexpr const char* kBestOfRun = "best";

// The path of the record. `path` may be the file itself, the folder that holds it (a --log-path) or
// that of the run.
std::filesystem::path record_of(const std::filesystem::path& path);
// The path of the model: that of the run in whose folder it is, or else `path`.
std::filesystem::path model_of(const std::filesystem::path& path);
// Throws Error.
RunRecord read_run(const std::filesystem::path& path);

// Throws Error kUserError if `output`, a page about to be written, is the same file as the record
// of one of the runs, even by another path.
void refuse_records(const std::filesystem::path& output, const std::vector<std::string>& log_paths);

// Follows the growing record of a running job.
class RunFollower {
 public:
  explicit RunFollower(std::filesystem::path file) : file_(std::move(file)) {}

  // Reads new complete lines; returns false if there are none or the file is missing. Throws Error
  // if the file cannot be read or is not a run record.
  bool read_news();

  const RunRecord& run() const { return run_; }

 private:
  // Reads a piece of the file and adds its complete lines; false at the end of the file.
  bool read_piece(std::istream& file);

  std::filesystem::path file_;
  RunRecord run_;
  std::string rest_;  // an incomplete line
  std::uint64_t read_ = 0;
};

// The run that began at `start_time`, read from `path` or its `.next`; empty if neither can be read
// as that run.
std::optional<RunRecord> find_record(const std::filesystem::path& path, double start_time);

// Notes in `interruption` the work that `old` records after the checkpoint, which is lost. Does
// nothing if `old` is empty.
void add_lost_work(const std::optional<RunRecord>& old, Interruption* interruption);

// training.json: the options, data and results of a training run. Does not use run.end.status: the
// file is written before the run has ended.
std::string format_training_json(const RunRecord& run, const RunEnd& end);

}  // namespace kiln
