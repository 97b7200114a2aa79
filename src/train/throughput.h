// How fast training is: seconds for a batch, and images per second.
#pragma once

#include <chrono>

#include "train/state.h"

namespace kiln {

// Rates of training, from the moments at which the images of a batch count as trained. On a CPU
// that is after the forward pass, the designer's measuring point, so that a batch's time holds the
// previous backward. On a GPU the host has only queued it by then, some steps ahead: all batches
// since the last time count when the host has waited for the device. One thread.
class Throughput {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Keeps the averages in `epoch`, which may have begun before `begin`. `is_queued`: on a GPU.
  Throughput(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin);

  // The forward pass of a batch with so many images has returned.
  void forwarded(int images, Time now);
  // The host has waited for the device, at the end of a step.
  void waited(Time now);

  // The rates of the batches that counted last, and of the epoch up to these; 0: none yet.
  double batch_seconds() const { return batch_seconds_; }
  double batch_images_per_second() const { return batch_images_per_second_; }
  double epoch_seconds() const { return epoch_seconds_; }
  double epoch_images_per_second() const { return epoch_images_per_second_; }

 private:
  int count(Time now);  // returns the images that count now

  EpochSums& epoch_;
  const bool is_queued_;
  const int batches_per_step_;
  const double seconds_before_;
  const Time begin_;
  Time counted_;
  int images_ = 0, batches_ = 0;  // trained since `counted_`
  double batch_seconds_ = 0, batch_images_per_second_ = 0;
  double epoch_seconds_ = 0, epoch_images_per_second_ = 0;
};

}  // namespace kiln
