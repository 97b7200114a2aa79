// One epoch of training, whose steps the caller runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "record/training_record.h"
#include "train/mixing.h"
#include "train/recipe.h"
#include "train/state.h"
#include "train/step.h"
#include "train/step_clock.h"
#include "train/throughput.h"

namespace kiln {

struct EpochPlan {
  int epoch = 1;          // from 1
  int num_epochs = 1;     // that the run trains
  int epochs_before = 0;  // earlier epochs that the schedule does not count
  SchedulePlan schedule;
  StepPlan step;
  MixPlan mix = {};
  int rank = 0, num_ranks = 1;  // of those that train; needed to mix images as one process would
  std::int64_t max_steps = 0;   // limit on the steps of a run's last epoch; 0: none
  StepTrace* trace = nullptr;   // must outlive the epoch; may be null
  // Receives each batch as the network will see it.
  std::function<void(const DeviceBatch&)> show = [](const DeviceBatch&) {};
};

// What is printed about the last step.
struct PrintedStep {
  StepRecord record;
  int first_nonfinite_step = 0;
};

// One epoch of training, run step by step. Adds timing around the steps (step.h), with the
// designer's measuring point. The caller owns the loop and decides when to report and when to stop.
// One thread.
//
// Continues from `state.epoch` and keeps it up to date.
class TrainEpoch : private StepContext {
 public:
  // All arguments must outlive the epoch.
  TrainEpoch(TrainState& state, Batches& loader, DeviceUploader& uploader, const EpochPlan& plan);

  // Trains on the next batches, together with the other ranks. Returns false if none are left or
  // the plan's limit is reached.
  bool step();
  // Whether the plan's limit allows another step.
  bool wants_step() const { return plan_.max_steps == 0 || state_.epoch.steps < plan_.max_steps; }

  int steps_done() const { return state_.epoch.steps; }
  double learning_rate() const { return learning_rate_; }  // of the last step
  // The next three wait for the device, once each; their values are those of this rank. The first
  // step whose loss was not finite; 0 if none.
  int first_nonfinite_step() const { return state_.epoch.metrics.read().first_nonfinite_step; }
  PrintedStep printed_step();
  EpochRecord finish();  // `valid` stays empty
  // Time and rate as of the end of the last step, for a progress line. Never waits for the device.
  StepRecord timing() const;

 private:
  std::optional<DeviceBatch> next() override;
  void enter(StepPhase phase) override;
  double rate_of_step(int index_in_epoch) const;  // the learning rate; the first step is 0
  // For ImageModel::key_images().
  std::vector<std::uint64_t> keys_of(const HostBatch& batch) const;
  std::int64_t first_image() const;  // the last batch's first position in the epoch
  EpochTimes spent();                // on this epoch so far, including before a resume

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
  int batch_images_ = 0;      // images in the last batch
  std::int64_t batches_ = 0;  // batches that this rank has taken in the epoch
};

}  // namespace kiln
