// Training speed: seconds per batch and images per second.
#pragma once

#include <chrono>

#include "train/state.h"

namespace kiln {

// Computes the rates from the moments at which a batch counts as trained. On a CPU that is after
// its forward pass, the designer's measuring point, so a batch's time includes the previous
// backward. On a GPU the host has then only queued the work, some steps ahead, so batches count
// when the host has next waited for the device. One thread.
class StepRates {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Keeps the averages in `epoch`, which may have begun before `begin`. `is_queued`: the device is
  // a GPU.
  StepRates(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin);

  // Call when the forward pass of a batch with `images` images has returned.
  void forwarded(int images, Time now);
  // Call when the host has waited for the device at the end of a step.
  void waited(Time now);

  // Rates of the batches counted last, and of the epoch up to then; 0 if none yet.
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
  int images_ = 0, batches_ = 0;  // trained since `counted_`
  double batch_seconds_ = 0, batch_rate_ = 0, epoch_seconds_ = 0, epoch_rate_ = 0;
};

}  // namespace kiln
