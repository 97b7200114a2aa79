// How many images a second an epoch trains.
#pragma once

#include "base/timeline.h"
#include "record/training_record.h"
#include "train/state.h"

namespace kiln {

// Computes images per second from the moments at which a batch counts as trained. On a CPU that is
// after its forward pass, the designer's measuring point, so a batch's time includes the previous
// backward. On a GPU the host has then only queued the work, some steps ahead, so batches count
// when the host has next waited for the device. One thread.
class Throughput {
 public:
  using Time = Timeline::Time;
  // Keeps the averages in `epoch`, which may have begun before `begin`. `is_queued`: the device is
  // a GPU.
  Throughput(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin)
      : epoch_(epoch),
        is_queued_(is_queued),
        batches_per_step_(batches_per_step),
        seconds_before_(epoch.spent.seconds),
        begin_(begin),
        counted_(begin) {}

  // Call when the forward pass of a batch with `images` images has returned.
  void forwarded(int images, Time now);
  // Call when the host has waited for the device at the end of a step.
  void waited(Time now);

  // Only with the seconds and rates of the batches counted last, and of the epoch up to then; 0 if
  // none yet.
  const StepRecord& rates() const { return rates_; }

 private:
  int count(Time now);  // returns the images that count now

  EpochSums& epoch_;
  const bool is_queued_;
  const int batches_per_step_;
  const double seconds_before_;
  const Time begin_;
  Time counted_;
  int images_ = 0, batches_ = 0;  // trained since `counted_`
  StepRecord rates_;
};

}  // namespace kiln
