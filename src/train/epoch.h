// One epoch of training, a step at a time, with the clocks and the designer's measuring point
// around the step (step.h). The caller owns the loop: it decides when to report and when to stop.
// One thread.
#pragma once

#include <chrono>
#include <optional>

#include "base/training_record.h"
#include "data/batch_loader.h"
#include "data/device_feed.h"
#include "train/state.h"
#include "train/step.h"
#include "train/step_clock.h"

namespace kiln {

struct EpochPlan {
  int epoch = 1;  // from 1
  SchedulePlan schedule;
  StepPlan step;
};

// Goes on from `state.epoch`, and keeps it current.
class TrainEpoch : private StepContext {
 public:
  // All must outlive the epoch.
  TrainEpoch(TrainState& state, BatchLoader& loader, DeviceFeed& feed, const EpochPlan& plan);

  // Trains on the next batches, together with the other ranks; false when there are none.
  bool step();

  int steps_done() const { return state_.epoch.steps; }
  double learning_rate() const { return learning_rate_; }  // of the last step
  // These wait for the device; numbers are this rank's.
  int first_bad_step() const { return state_.epoch.metrics.first_bad_step(); }  // 0: none
  StepRecord step_record();
  EpochRecord finish();  // `valid` stays empty
  // Time and rate as of the end of the last step, for a progress line: never waits.
  StepRecord timing() const;

 private:
  std::optional<DeviceBatch> next() override;
  void enter(StepPhase phase) override;
  void measure();
  EpochTimes spent();

  using Clock = std::chrono::steady_clock;
  TrainState& state_;
  BatchLoader& loader_;
  DeviceFeed& feed_;
  EpochPlan plan_;
  TrainStep step_;
  StepClock clock_;
  const EpochTimes before_;  // spent on this epoch when this began
  const std::optional<CommunicationTime> communication_before_;
  Clock::time_point begin_, measured_;
  double learning_rate_ = 0, batch_seconds_ = 0;
  int next_count_ = 0, batch_count_ = 0;  // images: handed out, measured
};

}  // namespace kiln
