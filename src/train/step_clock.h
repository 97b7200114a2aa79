// Measures where the time of training steps goes.
#pragma once

#include <c10/core/Device.h>
#include <memory>

#include "base/timeline.h"
#include "record/training_record.h"

namespace kiln {

// Measures the parts of steps. On a GPU it uses events in the stream, so that the host does not
// wait. One thread.
class StepClock {
 public:
  explicit StepClock(const c10::Device& device);
  ~StepClock();
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  // begin() starts a part and ends the previous one; stop() ends the last part.
  void begin(double StepTimes::*part);
  void stop();

  // Sums over all ended parts; on a GPU, over those that it has already finished.
  StepTimes times();

  // From now on adds each part to `timeline`: to the track of steps as seen by the host and, on a
  // GPU, to the track of the device. nullptr stops this after adding all parts so far. On a GPU
  // either call waits for the device. The timeline must stay valid until the call with nullptr or
  // the end of the clock.
  void trace(Timeline* timeline);
  bool is_traced() const;

 private:
  class Marks;
  std::unique_ptr<Marks> marks_;
};

}  // namespace kiln
