// `metrics.jsonl`: a run, one line per event, flushed at once, so that it is complete up to the
// moment a run is killed; and its reader.
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

#include "base/training_record.h"
#include "report/record/run_record.h"
#include "report/record/run_sink.h"

namespace kiln {

inline constexpr const char* kRunFileName = "metrics.jsonl";

// Rewrites the file. A record of a run that has finished an epoch stays there until this run
// has: until then its own is `metrics.jsonl.next`, beside it, which is where it remains if this run
// ends before. A resumed run's record is cut back to its checkpoint and goes on from there: the
// whole of it replaces the old one at once. Its functions throw std::runtime_error.
std::unique_ptr<RunSink> make_run_file(const std::filesystem::path& path);

// Where this is; it is there only while, or if, an earlier run's record has not been replaced.
std::filesystem::path next_record(const std::filesystem::path& path);

// Whether a running program writes this record, under either name.
bool is_record_in_use(const std::filesystem::path& path);

// The lines, each with its end, as one program writes them: the same event is the same text.
std::string run_line(const RunStart& start);
std::string run_line(const PlannedLength& length);
std::string run_line(const StepRecord& step);
std::string run_line(const std::string& warning);
std::string run_line(const EpochRecord& epoch, const ValidationDetails* details);
std::string run_line(const RunEnd& end);

// The lines that only a record in a checkpoint has.
std::string usage_line(const RunEnd& so_far);  // the fields that are known before the end
std::string state_line(const std::string& sink, const std::string& state);  // RunSink::state()

// The record of a run that resumes: the lines of a checkpoint's record, under a new start line, and
// one for the interruption.
std::string resumed_text(const RunStart& start, std::string_view record_text,
                         const Interruption& interruption);

// Puts a number of epochs that was decided later, and its reason, into the plan of a run.
void note_length(RunStart& start, const PlannedLength& length);

// Replays a record without faults to a sink, except for its end.
void retell(std::string_view text, RunSink& sink);

// Adds the complete lines of `text`, which begins at `offset` of a file, to the run; returns the
// offset of the rest, an unfinished line of a killed or running process. Throws as parse_run().
std::size_t add_run_lines(std::string_view text, std::uint64_t offset, RunRecord* run);
// Throws Error kInvalidDataset if it has no start line.
void require_start(const RunRecord& run);

// The run in `text`; an incomplete last line and unknown keys and events are ignored. Throws Error
// kInvalidDataset, with the position, if the text is not a run record.
RunRecord parse_run(std::string_view text);

// `path` may be the file, or the folder that holds it (a --log-path).
std::filesystem::path record_of(const std::filesystem::path& path);
// Throws Error.
RunRecord read_run(const std::filesystem::path& path);

// Throws Error kUserError if `output`, a page about to be written, is the record of one of the
// runs, even under another name.
void refuse_records(const std::filesystem::path& output, const std::vector<std::string>& log_paths);

// Follows the growing file of a running job.
class RunFollower {
 public:
  explicit RunFollower(std::filesystem::path file) : file_(std::move(file)) {}

  // Reads new complete lines; false if there are none, or no file. A new run, in the file or beside
  // it, replaces the previous one, and a file that was cut back is read again. Throws Error if the
  // file cannot be read or is not a run record.
  bool read_news();
  // The same, of this file alone.
  bool read_news_of(const std::filesystem::path& record);

  const RunRecord& run() const { return run_; }
  bool has_begun() const { return run_.start.time != 0; }

 private:
  // Whether the file still has what was read last.
  bool goes_on(std::istream& file) const;
  // Reads a piece of the file and adds its complete lines; false at the end of the file.
  bool take_piece(std::istream& file);

  std::filesystem::path file_;
  RunRecord run_;
  std::string rest_;  // of a line
  std::uint64_t read_ = 0;
  std::string tail_;  // the last bytes read, to know the file by
};

// The run that began at `start_time`, from its record at `path` or beside it; empty if there is
// none that can be read.
std::optional<RunRecord> find_record(const std::filesystem::path& path, double start_time);

// The work after the checkpoint in that record, which is lost; nothing if it is empty.
void note_lost_work(const std::optional<RunRecord>& old, Interruption* interruption);

// training.json: the options, data and results of a training run.

// Does not use run.end.status: the file is written before the run has ended.
std::string format_training_json(const RunRecord& run, const RunEnd& end);

// Serialization of predictions, to send them between ranks.

std::string pack_judged_images(const std::vector<JudgedImage>& images);
std::vector<JudgedImage> unpack_judged_images(const std::string& text);

}  // namespace kiln
