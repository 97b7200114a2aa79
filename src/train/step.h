// The algorithm of one training step. Timing and records are in epoch.h.
#pragma once

#include <cstdint>
#include <optional>

#include "data/loader/device_uploader.h"
#include "train/loss.h"
#include "train/state.h"

namespace kiln {

struct StepPlan {
  int batch_size = 1;        // images in a full batch
  int batches_per_step = 1;  // batches accumulated into one step; 0: this rank does not train
  // Smaller batches are skipped, since BatchNorm over 1x1 maps cannot normalize a single image.
  int smallest_batch = 1;
  bool train_on_empty_batches = false;  // synchronized BatchNorm needs all ranks in every batch
  LossPlan loss = {};
  double clip_norm = 0;                    // 0: gradients stay as they are
  Precision precision = Precision::kFp32;  // must match the recipe of the state
  const Task* task = &single_label();      // must outlive the step

  // The number of images that this rank adds to an update, including bad ones.
  std::int64_t images() const { return std::int64_t{batch_size} * batches_per_step; }
};

// The phases of a step, for timing.
enum class StepPhase { kBackward, kCommunication, kOptimizer, kDone };

// The environment of a step: provides its batches and observes its phases.
class StepContext {
 public:
  virtual ~StepContext() = default;
  // The next batch on the device, valid until the next call; empty after the last.
  virtual std::optional<DeviceBatch> next() = 0;
  virtual void enter(StepPhase /*phase*/) {}
};

// One thread.
class TrainStep {
 public:
  TrainStep(TrainState& state, const StepPlan& plan)
      : state_(state),
        plan_(plan),
        loss_(plan.loss, state.model->parameters().front().device(), *plan.task) {}

  // Trains on the next batches, together with the other ranks, and updates the weights. Returns
  // false if no batch is left; a rank with batches_per_step = 0 takes no batches and always returns
  // true. On a GPU the work is queued, not waited for. In float16, a step whose gradients overflow
  // is counted but leaves the weights unchanged.
  bool run(StepContext& context, double learning_rate);

 private:
  TrainState& state_;
  StepPlan plan_;
  TrainingLoss loss_;
};

}  // namespace kiln
