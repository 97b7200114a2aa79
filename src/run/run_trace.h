// --trace: records the timeline of a few steps of this rank and writes it to a file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/timeline.h"
#include "train/step_clock.h"

namespace kiln {

// One thread; other threads may add to the timeline. If the trace cannot be written in the end,
// only warns.
class RunTrace {
 public:
  // Creates the file's folder if it is missing, and checks that there is space for the file. Throws
  // Error kFailedToWriteOutputs. `log` must outlive it.
  RunTrace(const std::filesystem::path& path, int rank, Log& log);

  StepTrace& steps() { return steps_; }
  // Shared with everything that may still add to it after the run has failed.
  const std::shared_ptr<Timeline>& timeline() const { return timeline_; }

  // Call after each step: writes the file once the last traced step is done.
  void after_step();
  // Call when training has ended. If that was before the last traced step, writes what there is, or
  // logs that there is nothing.
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
