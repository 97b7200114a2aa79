// One epoch of training, stepped by its caller.
#pragma once

#include <cstdint>
#include <optional>

#include "base/training_record.h"
#include "data/loader/batches.h"
#include "data/loader/device_uploader.h"
#include "train/mixing.h"
#include "train/state.h"
#include "train/step.h"
#include "train/step_clock.h"
#include "train/throughput.h"

namespace kiln {

class StepTrace;

struct EpochPlan {
  int epoch = 1;          // from 1
  int epochs_before = 0;  // epochs of the run that the schedule does not count
  SchedulePlan schedule;
  StepPlan step;
  MixPlan mix = {};
  int rank = 0;                 // among step.num_ranks, whose images are mixed as by one process
  std::int64_t most_steps = 0;  // the limit of a run's last epoch; 0: none
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
  bool wants_step() const { return plan_.most_steps == 0 || state_.epoch.steps < plan_.most_steps; }

  int steps_done() const { return state_.epoch.steps; }
  double learning_rate() const { return learning_rate_; }  // of the last step
  // These three wait for the device; their numbers are this rank's.
  // The first step whose loss was not finite; 0: none.
  int first_nonfinite_step() const { return state_.epoch.metrics.first_nonfinite_step(); }
  StepRecord step_record();
  EpochRecord finish();  // `valid` stays empty
  // Time and rate as of the end of the last step, for a progress line: never waits.
  StepRecord timing() const;

 private:
  std::optional<DeviceBatch> next() override;
  void enter(StepPhase phase) override;
  double rate_of_step(int index_in_epoch) const;  // the learning rate; the first step is 0
  DeviceBatch mix(const DeviceBatch& batch, const HostBatch& host) const;
  EpochTimes spent();  // on this epoch until now, before and after a checkpoint

  TrainState& state_;
  Batches& loader_;
  DeviceUploader& uploader_;
  EpochPlan plan_;
  TrainStep step_;
  StepClock clock_;
  const EpochTimes before_;  // spent on this epoch before this object was made
  const std::optional<CommunicationTime> communication_before_;
  const Throughput::Time begin_;
  Throughput throughput_;
  double learning_rate_ = 0;
  int batch_images_ = 0;      // in the last batch
  std::int64_t batches_ = 0;  // that this rank has taken in the epoch
};

}  // namespace kiln
