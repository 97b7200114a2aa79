// One epoch of training, stepped by its caller; and where the time of its steps goes.
#pragma once

#include <c10/core/Device.h>
#include <chrono>
#include <memory>
#include <optional>

#include "base/timeline.h"
#include "base/training_record.h"
#include "data/loader/batches.h"
#include "data/loader/device_uploader.h"
#include "train/mixing.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {

class StepTrace;

// Time breakdown of training steps. On a GPU, parts are measured by events in its stream, so that
// the host does not wait. One thread.
class StepClock {
 public:
  explicit StepClock(const c10::Device& device);
  ~StepClock();
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  // A part begins; parts follow each other, and the last before stop() ends there.
  void begin(double StepTimes::*part);
  void stop();

  // The sum of all parts that have ended, on a GPU as far as it has come.
  StepTimes times();

  // From now on parts are also noted there: on the track of the steps as the host sees them, and on
  // that of the device what it computes. Null: no longer; then everything has been noted. On a GPU
  // both wait for it. The timeline outlives the clock, or the null.
  void trace(Timeline* timeline);
  bool is_traced() const;

 private:
  class Marks;
  std::unique_ptr<Marks> marks_;
};

// Rates of training, from the moments at which the images of a batch count as trained. On a CPU
// that is after the forward pass, the designer's measuring point, so that a batch's time holds the
// previous backward. On a GPU the host has only queued it by then, some steps ahead: all batches
// since the last time count when the host has waited for the device. One thread.
class StepRates {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Keeps the averages of `epoch`, which may have begun before `begin`.
  StepRates(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin);

  void forwarded(int images, Time now);
  void waited(Time now);  // for the device, at the end of a step

  // Of the last that counted, per batch, and of the epoch up to them; 0: none yet.
  double batch_seconds() const { return batch_seconds_; }
  double batch_rate() const { return batch_rate_; }
  double epoch_seconds() const { return epoch_seconds_; }
  double epoch_rate() const { return epoch_rate_; }

 private:
  void count(Time now);

  EpochSums& epoch_;
  const bool is_queued_;
  const int batches_per_step_;
  const double seconds_before_;
  const Time begin_;
  Time counted_;
  int images_ = 0, batches_ = 0;  // that do not count yet
  double batch_seconds_ = 0, batch_rate_ = 0, epoch_seconds_ = 0, epoch_rate_ = 0;
};

struct EpochPlan {
  int epoch = 1;          // from 1
  int epochs_before = 0;  // of the run, that the schedule does not count
  SchedulePlan schedule;
  StepPlan step;
  MixPlan mix = {};
  int rank = 0;                 // among step.num_ranks, whose images are mixed as by one process
  std::int64_t most_steps = 0;  // of this epoch, the last of a run; 0: all
  StepTrace* trace = nullptr;   // outlives the epoch; null: none
};

// One epoch of training, a step at a time, with the clocks and the designer's measuring point
// around the step (step.h). The caller owns the loop: it decides when to report and when to stop.
// One thread.
//
// Continues from `state.epoch`, and keeps it current.
class TrainEpoch : private StepContext {
 public:
  // All must outlive the epoch.
  TrainEpoch(TrainState& state, Batches& loader, DeviceUploader& uploader, const EpochPlan& plan);

  // Trains on the next batches, together with the other ranks; false when there are none, or the
  // plan asks for no more.
  bool step();
  // Whether the plan asks for another step.
  bool goes_on() const { return plan_.most_steps == 0 || state_.epoch.steps < plan_.most_steps; }

  int steps_done() const { return state_.epoch.steps; }
  double learning_rate() const { return learning_rate_; }  // of the last step
  // These wait for the device; numbers are this rank's.
  int first_nonfinite_step() const {
    return state_.epoch.metrics.first_nonfinite_step();
  }  // 0: none
  StepRecord step_record();
  EpochRecord finish();  // `valid` stays empty
  // Time and rate as of the end of the last step, for a progress line: never waits.
  StepRecord timing() const;

 private:
  std::optional<DeviceBatch> next() override;
  void enter(StepPhase phase) override;
  double rate_after(int steps) const;  // of the epoch
  DeviceBatch mix(const DeviceBatch& batch, const HostBatch& host) const;
  EpochTimes spent();

  TrainState& state_;
  Batches& loader_;
  DeviceUploader& uploader_;
  EpochPlan plan_;
  TrainStep step_;
  StepClock clock_;
  const EpochTimes before_;  // spent on this epoch when this began
  const std::optional<CommunicationTime> communication_before_;
  const StepRates::Time begin_;
  StepRates rates_;
  double learning_rate_ = 0;
  int batch_images_ = 0;      // images handed out
  std::int64_t batches_ = 0;  // of this rank in the epoch
};

}  // namespace kiln
