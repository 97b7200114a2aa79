// --trace: the timeline of a few steps of this rank, and its file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/timeline.h"
#include "train/step_trace.h"

namespace kiln {

// trace.json for rank 0, trace-rank3.json for rank 3.
std::filesystem::path trace_path_of_rank(const std::filesystem::path& path, int rank);

// One thread; others may add to the timeline. A trace that cannot be written in the end is missed,
// with a warning.
class RunTrace {
 public:
  // Makes the file's folder where it is missing, and tries whether the file will find room there.
  // Throws Error kFailedToWriteOutputs. `log` must outlive it.
  RunTrace(const std::filesystem::path& path, int rank, Log& log);

  StepTrace& steps() { return steps_; }
  // Shared with all that may still add to it after the run has failed.
  const std::shared_ptr<Timeline>& timeline() const { return timeline_; }

  // Writes the file after the last step that it shows.
  void after_step();
  // Training has ended: if that was earlier, writes what there is, or says that there is nothing.
  void finish();

 private:
  void write();

  const std::filesystem::path path_;
  const int rank_;
  Log& log_;
  std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  StepTrace steps_{*timeline_};
  bool is_written_ = false;
};

}  // namespace kiln
