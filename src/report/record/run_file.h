// `metrics.jsonl`: a run, a line an event, written through, so that it is whole up to the moment a
// run is killed; and read back into the run it came from.
//
// Every line is a JSON object with "event": "start", "step", "warning", "epoch" or "end", and
// "time" in Unix seconds. Numbers that are not finite are the strings "NaN", "Infinity" and
// "-Infinity".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/training_record.h"
#include "report/record/run_record.h"
#include "report/record/run_sink.h"

namespace kiln {

inline constexpr const char* kRunFileName = "metrics.jsonl";

// Begins the file anew. Throws std::runtime_error.
std::unique_ptr<RunSink> make_run_file(const std::filesystem::path& path);

// The run in `text`; a last line that is cut short is passed over, unknown keys and events are
// too. Throws Error kInvalidDataset, with the place, for text that is no such file.
RunRecord parse_run(std::string_view text);

// `path` may be the file, or the folder that holds it (a --log-path).
std::filesystem::path record_of(const std::filesystem::path& path);
// Throws Error.
RunRecord read_run(const std::filesystem::path& path);

// Throws Error kUserError where `output`, a page that is to be written, is the record of one of the
// runs, by whatever name.
void refuse_records(const std::filesystem::path& output, const std::vector<std::string>& log_paths);

// A run that goes on, by what its file grows by.
class RunFollower {
 public:
  explicit RunFollower(std::filesystem::path file) : file_(std::move(file)) {}

  // Takes what is new, whole lines only; false: nothing is. A run that began the file anew takes
  // the place of the one before. A file that is not there has nothing new. Throws Error for one
  // that cannot be read, or is no such file.
  bool read_news();

  const RunRecord& run() const { return run_; }
  bool has_begun() const { return run_.start.time != 0; }

 private:
  std::filesystem::path file_;
  RunRecord run_;
  std::string rest_;  // of a line
  std::uint64_t read_ = 0;
  std::string head_;  // the first bytes, to know the file by
};

// training.json: what a training run was asked, saw and did.

// `run.end` is not looked at: the file is written before the run has ended.
std::string format_training_json(const RunRecord& run, const RunEnd& end);

// Judged images as text and back, for the way from one rank to another.

std::string pack_judged_images(const std::vector<JudgedImage>& images);
std::vector<JudgedImage> unpack_judged_images(const std::string& text);

}  // namespace kiln
