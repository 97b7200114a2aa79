// One epoch of training, a step at a time. The caller owns the loop: it decides when to report and
// when to stop. One thread.
#pragma once

#include <chrono>
#include <optional>

#include "base/training_record.h"
#include "data/batch_loader.h"
#include "data/device_feed.h"
#include "train/metrics.h"
#include "train/state.h"
#include "train/step_clock.h"

namespace kiln {

struct EpochPlan {
  int epoch = 1;  // from 1
  int num_epochs = 1;
  double learning_rate = 0;
  // BatchNorm over 1x1 maps cannot take one image: a batch below this is passed over.
  int smallest_batch = 1;
  int num_ranks = 1;
  int batches_per_step = 1;             // gradients of so many batches make one step
  bool train_on_empty_batches = false;  // synchronised BatchNorm needs every rank in every batch
};

class TrainEpoch {
 public:
  TrainEpoch(TrainState& state, BatchLoader& loader, DeviceFeed& feed, const EpochPlan& plan);

  // Trains on the next batches, together with the other ranks; false when there are none.
  bool step();

  int steps_done() const { return step_; }
  // These wait for the device; numbers are this rank's.
  int first_bad_step() const { return metrics_.first_bad_step(); }  // 0: every loss is finite
  StepRecord step_record();
  EpochRecord finish();  // `valid` stays empty
  // Time and rate only, for a progress line: never waits.
  StepRecord timing() const;

 private:
  const HostBatch* next_batch();
  void train_on(const HostBatch& batch);
  void measure(int count);

  using Clock = std::chrono::steady_clock;
  TrainState& state_;
  BatchLoader& loader_;
  DeviceFeed& feed_;
  EpochPlan plan_;
  MetricSums metrics_;
  StepClock clock_;
  const std::optional<CommunicationTime> communication_before_;
  Clock::time_point begin_, measured_;
  int step_ = 0;
  double batch_seconds_ = 0, weighted_seconds_ = 0, weighted_rate_ = 0, images_ = 0;
  int batch_count_ = 0;
};

}  // namespace kiln
