// Tells a training run to the console, the driver log and, on rank 0, all other sinks. It is told
// and never asked what to do: what the run goes by is in its state.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/system.h"
#include "config/run_config.h"
#include "parallel/device/device.h"
#include "parallel/device/nvidia_driver.h"
#include "report/record/run_record.h"
#include "report/record/run_sink.h"
#include "run/prepare.h"

namespace kiln {

// What a training run sets out to do, for the console and for those who read of it later.

// Counts of images are of all shards. A collective.
RunStart describe_run(const TrainingJob& job, const TrainState& state);

// Tells a training run to the console, the driver log and, on rank 0, all other sinks. It is told
// and never asked what to do: what the run goes by is in its state.

// Which sinks a run's numbers go to. One that cannot begin is warned of and left out.
void add_run_sinks(const OutputConfig& config, RunReporter& reporter);

// How much of its cores this process gets.
class CpuMeter {
 public:
  // Processor time over wall time x `num_threads` since the last call, at most 1.
  double take_share(int num_threads);

 private:
  double processor_begin_ = processor_seconds();
  Stopwatch watch_;
};

// Every rank has one and tells it the same, in step. One thread.
class RunLogger {
 public:
  // All that is given must outlive it.
  RunLogger(const OutputConfig& config, bool leads, const Device& device, Log& log);

  // Warnings come first; those of a rank that does not lead are in its log alone.
  void start(RunStart start, const std::vector<std::string>& warnings);
  // One that is printed; sums are over all ranks.
  void step(StepRecord record);
  // After every step, and after every batch of validation: the live line.
  void progress(const StepRecord& timing);
  void validating(int epoch, int step, int num_steps);
  // `details` is there where the epoch's model is kept.
  void epoch(EpochRecord record, const ValidationDetails* details);
  // Why no further epoch comes.
  void stopped_early(const std::string& reason, const std::string& line);

  // The model is about to be written; what training.json says of the run is complete.
  void saving(std::vector<ImageFaultRecord> image_faults);
  std::string training_json() const;
  // The end: one of these.
  void saved();
  void nothing_saved();
  void failed(const std::exception_ptr& failure);

 private:
  void end(RunStatus status);
  void note_usage();  // time and memory until now

  const OutputConfig& config_;
  const Device& device_;
  Log& log_;
  bool leads_;
  GpuMeter gpu_meter_;
  CpuMeter cpu_;
  RunReporter reporter_;
  RunEnd end_;
};

}  // namespace kiln
