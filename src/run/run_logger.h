// Reports a training run to the console, the driver log and, on rank 0, all other sinks. It only
// receives events; state that controls training is in TrainState.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/system.h"
#include "cli/run_config.h"
#include "parallel/device/device.h"
#include "record/run_record.h"
#include "record/run_sink.h"
#include "run/forecast.h"
#include "run/predecessor.h"
#include "run/prepare/memory.h"
#include "run/prepare/repeat_file.h"

namespace kiln {

struct RunClock {
  double seconds_before = 0;  // in earlier processes, with the work that was lost; on rank 0

  double seconds_used() const { return seconds_before + seconds_since_process_start(); }
};

// Adds the sinks of a run; `repeat` writes repeat.yaml. One that fails to start is reported as a
// warning and omitted.
void add_run_sinks(const OutputConfig& config, const std::function<std::string()>& repeat,
                   RunReporter& reporter);

// Measures the share of CPU time that this process gets.
class CpuMeter {
 public:
  // CPU time / (wall time x `num_threads`) since the last call, at most 1.
  double take_share(int num_threads);

 private:
  double processor_begin_ = processor_seconds();
  Stopwatch watch_;
};

// Every rank has one and calls it in lockstep. One thread.
class RunLogger {
 public:
  // The arguments must outlive it.
  RunLogger(const OutputConfig& config, bool leads, const Device& device, RunClock& clock,
            const Predecessor& predecessor, Log& log)
      : config_(config),
        device_(device),
        clock_(clock),
        predecessor_(predecessor),
        log_(log),
        leads_(leads),
        gpu_meter_(leads ? device.uuid : ""),
        reporter_(log) {}

  // Call before start() or resume(): what repeat.yaml is made from, which rank 0 writes.
  // `why_not_equal`: see repeat_text().
  void repeat_with(Settings settings, std::string why_not_equal) {
    settings_ = std::move(settings);
    why_not_equal_ = std::move(why_not_equal);
  }
  // What the run has found meanwhile.
  void repeat_with(Settings settings) { settings_ = std::move(settings); }
  const Settings& settings() const { return settings_; }
  // Logs the warnings first; those of ranks above 0 appear only in their own logs.
  void start(RunStart start, const std::vector<std::string>& warnings);
  // Call instead of start() for a run that resumes from a checkpoint, whose record is the
  // record_text() of rank 0 (elsewhere it may be empty): also sets the clock. What was lost by
  // `stop` is found here. Throws Error kInvalidDataset if the record cannot be parsed.
  void resume(RunStart start, const std::vector<std::string>& warnings, Interruption stop,
              const std::string& record);
  // The run so far, for a checkpoint.
  std::string record_text() const;
  // When the run first began, in Unix seconds.
  double started() const { return reporter_.run().start.time; }
  // Call before the first step: from now on watches memory and, if it runs short, names a batch
  // size that fits.
  void watch_memory(const MemoryUse& plan) { memory_.emplace(plan); }
  // Call before the first step: rank 0 then reports after some steps when the run will end.
  void forecast(RunLength run);
  // Adds what is known about memory to a failure; report the result instead.
  std::exception_ptr advised(const std::exception_ptr& failure) const {
    return memory_ ? memory_->advised(failure) : failure;
  }
  // Sets the time limit of the whole run: more time is never left than that.
  // Measured by rank 0.
  void limit_time(double seconds) { time_limit_s_ = seconds; }
  // The number of epochs, decided after start().
  void planned(PlannedLength length);
  // Call for each printed step; the sums must be over all ranks.
  void step(StepRecord record);
  // Of the kept epoch, on rank 0.
  const ValidationDetails& details() const { return reporter_.run().details; }
  // Call before the first step of an epoch and after its last: the GPU's load is that between them.
  void steps_begin() { gpu_meter_.take_average(); }
  void steps_end() { load_ = gpu_meter_.take_average(); }
  // Call after every training step and validation batch: updates the live line.
  void progress(const StepRecord& timing);
  void validating(int epoch, int step, int num_steps);
  // `details` is nullptr unless the epoch's model is kept.
  void epoch(EpochRecord record, const ValidationDetails* details);
  // Call when --auto has decided which network to keep.
  void decided(const AutomaticRecord& found) { end_.automatic = found; }
  // Call once training has ended.
  void add_pictures(PictureList list) { reporter_.add_pictures(std::move(list)); }
  // Call when training ends early.
  void stopped_early(const std::string& reason, const std::string& line);

  // Call when the model is about to be written: completes the contents of training.json.
  // `validation_images`: a fingerprint of them.
  void saving(std::vector<ImageFaultRecord> image_faults, std::string validation_images);
  std::string training_json() const;
  // Call exactly one of these at the end.
  void saved();
  void nothing_saved(const std::string& why);
  void failed(const std::exception_ptr& failure);

 private:
  void add_sinks(const std::vector<std::string>& warnings);
  double seconds_left(const StepRecord& timing) const;
  void log_forecast(const std::optional<ForecastText>& forecast);
  void end(RunStatus status);
  RunEnd end_so_far() const;  // with the time and memory used

  const OutputConfig& config_;
  const Device& device_;
  RunClock& clock_;
  const Predecessor& predecessor_;
  Log& log_;
  bool leads_, has_epoch_ = false;  // in this process
  GpuMeter gpu_meter_;
  std::optional<GpuLoad> load_;  // of the epoch's steps
  CpuMeter cpu_;
  std::optional<MemoryWatch> memory_;
  std::optional<Forecast> forecast_;
  Settings settings_;
  std::string why_not_equal_;
  RunReporter reporter_;
  RunEnd end_;
  double time_limit_s_ = 0;  // 0: none
};

}  // namespace kiln
