// One training step: the algorithm, and nothing else. Clocks and records stand around it
// (epoch.h).
#pragma once

#include <cstdint>
#include <optional>

#include "data/loader/device_uploader.h"
#include "train/loss.h"
#include "train/state.h"

namespace kiln {

struct StepPlan {
  int batch_size = 1;        // images of a whole batch
  int batches_per_step = 1;  // their gradients make one step
  int num_ranks = 1;
  // BatchNorm over 1x1 maps cannot take one image: a batch below this is passed over.
  int smallest_batch = 1;
  bool train_on_empty_batches = false;  // synchronized BatchNorm needs every rank in every batch
  LossPlan loss = {};

  // Of one step, over all ranks: what gradients are divided by, bad images or not.
  std::int64_t images() const { return std::int64_t{batch_size} * batches_per_step * num_ranks; }
};

// What a step is about to do, for those who measure it.
enum class StepPhase { kBackward, kCommunication, kOptimizer, kDone };

// What stands around a step: where its batches come from, and who hears of its phases.
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
      : state_(state), plan_(plan), loss_(find_training_loss(plan.loss)) {}

  // Takes the next batches, together with the other ranks, and changes the weights; false: no batch
  // is left. On a GPU queued, not waited for.
  bool run(StepContext& context, double learning_rate);

 private:
  bool is_passed_over(const DeviceBatch& batch) const;

  TrainState& state_;
  StepPlan plan_;
  TrainingLoss loss_;
};

}  // namespace kiln
