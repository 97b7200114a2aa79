// One training step: only the algorithm. Timing and records are in epoch.h.
#pragma once

#include <cstdint>
#include <optional>

#include "data/loader/device_uploader.h"
#include "train/loss.h"
#include "train/state.h"

namespace kiln {

struct StepPlan {
  int batch_size = 1;        // images of a whole batch
  int batches_per_step = 1;  // their gradients make one step; 0: this rank trains on none
  int num_ranks = 1;         // ranks that train
  // Gradients of all ranks make one update; otherwise each rank's an update of its own.
  bool sums_ranks = true;
  // BatchNorm over 1x1 maps cannot normalize a single image: smaller batches are skipped.
  int smallest_batch = 1;
  bool train_on_empty_batches = false;  // synchronized BatchNorm needs every rank in every batch
  LossPlan loss = {};
  double clip_norm = 0;                    // 0: gradients stay as they are
  Precision precision = Precision::kFp32;  // as in the recipe of the state

  // The images of one update, bad ones included: what gradients are divided by.
  std::int64_t images() const {
    return std::int64_t{batch_size} * batches_per_step * (sums_ranks ? num_ranks : 1);
  }
};

// The phases of a step, for timing.
enum class StepPhase { kBackward, kCommunication, kOptimizer, kDone };

// The surroundings of a step: the source of its batches, and the observer of its phases.
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
        loss_(find_training_loss(plan.loss, state.model->parameters().front().device())) {}

  // Trains on the next batches, together with the other ranks, and updates the weights; false if no
  // batch is left, which a rank that trains on none never finds. On a GPU the work is queued, not
  // waited for. In float16, a step whose gradients overflow counts but leaves the weights as they
  // are.
  bool run(StepContext& context, double learning_rate);

 private:
  bool is_passed_over(const DeviceBatch& batch) const;
  at::Tensor objective(const at::Tensor& logits, const DeviceBatch& batch) const;

  TrainState& state_;
  StepPlan plan_;
  TrainingLoss loss_;
};

}  // namespace kiln
