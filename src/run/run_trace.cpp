#include "run/run_trace.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace kiln {

// trace.json for rank 0, trace-rank3.json for rank 3.
static std::filesystem::path trace_path_of_rank(const std::filesystem::path& path, int rank) {
  if (rank == 0) return path;
  std::filesystem::path own = path;
  own.replace_filename(path.stem().string() + "-rank" + std::to_string(rank) +
                       path.extension().string());
  return own;
}

RunTrace::RunTrace(const std::filesystem::path& path, int rank, Log& log)
    : path_(trace_path_of_rank(path, rank)), rank_(rank), log_(log) {
  if (is_folder(path_)) fail_to_write(path_, EISDIR);
  if (path_.has_parent_path()) make_folders(path_.parent_path());
  complete_file(path_, std::string(Timeline::kMaxBytes, ' '));  // is there space? it goes at once
}

void RunTrace::after_step() {
  if (!is_written_ && steps_.steps() >= StepTrace::kLast) write();
}

void RunTrace::finish() {
  if (is_written_) return;
  timeline_->end();
  if (steps_.steps() >= StepTrace::kFirst) return write();
  const std::string text =
      formatted("no trace in '%s': it starts at step %d, but this process ran only %s",
                path_.c_str(), StepTrace::kFirst, plural(steps_.steps(), "step", "steps").c_str());
  rank_ == 0 ? log_.warning(text) : log_.info("warning: " + text);
}

void RunTrace::write() {
  is_written_ = true;  // even if writing fails: there is no second attempt
  try {
    write_file_durably(path_, timeline_->json(rank_));
  } catch (const Error& error) {
    return log_.warning("the trace was not written: " + error.message());
  }
  log_.info(formatted("Trace of steps %d to %d: %s", StepTrace::kFirst,
                      std::min(steps_.steps(), StepTrace::kLast), path_.c_str()));
}

}  // namespace kiln
