// Tells a training run: to the console and the driver log, and to the sinks of rank 0.
#pragma once

#include <chrono>
#include <exception>

#include "base/log.h"
#include "config/run_config.h"
#include "parallel/device.h"
#include "parallel/gpu_meter.h"
#include "report/lines.h"
#include "report/run_reporter.h"

namespace kiln {

// Every rank has one and tells it the same, in step. One thread.
class RunTelling {
 public:
  // All that is given must outlive it.
  RunTelling(const TrainConfig& config, bool leads, const Device& device, Log& log);

  void start(RunStart start);
  // One that is printed; sums are over all ranks.
  void step(StepRecord record);
  // After every step: the live line, at most ten times a second.
  void progress(const StepRecord& timing);
  // Likewise, after every batch of validation.
  void validating(int epoch, int step, int num_steps);
  // Ends with the epoch's lines. `judgement` is there where the epoch's model is kept.
  void epoch(EpochRecord record, const Judgement* judgement);
  void stopped_early(const std::string& why, const std::string& line);
  void saving(std::vector<ImageFaultRecord> image_faults);
  // The end, one of these.
  void saved(const std::string& model_path);
  void nothing_saved();
  void failed(const std::exception_ptr& failure);

  // What is known so far; `end` is what will be told.
  const RunRecord& run() const { return reporter_.run(); }
  const RunEnd& outcome() const { return end_; }
  const RunReporter& reporter() const { return reporter_; }

 private:
  bool may_redraw();  // the live line
  void end(RunStatus status);
  void note_usage();  // time and memory until now
  void tell_losses();

  const TrainConfig& config_;
  const Device& device_;
  Log& log_;
  bool leads_;
  GpuMeter gpu_meter_;
  RunReporter reporter_;
  RunEnd end_;
  LiveLine live_;
  std::chrono::steady_clock::time_point shown_;  // the live line
};

}  // namespace kiln
