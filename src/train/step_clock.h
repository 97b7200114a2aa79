// Where the time of training steps goes, by their parts.
#pragma once

#include <c10/core/Device.h>
#include <memory>

#include "base/timeline.h"
#include "base/training_record.h"

namespace kiln {

// Measures the parts of steps. On a GPU by events in its stream, so that the host does not wait.
// One thread.
class StepClock {
 public:
  explicit StepClock(const c10::Device& device);
  ~StepClock();
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  // A part begins, which ends the one before it; stop() ends the last.
  void begin(double StepTimes::*part);
  void stop();

  // The sums over all parts that have ended; on a GPU, over those that it has finished by now.
  StepTimes times();

  // From now on adds each part to `timeline`: to the track of the steps as the host sees it, and to
  // that of the device if it computes. Null ends this, once all parts so far have been added. On a
  // GPU either call waits for it. The timeline must outlive the clock, or the call with null.
  void trace(Timeline* timeline);
  bool is_traced() const;

 private:
  class Marks;
  std::unique_ptr<Marks> marks_;
};

}  // namespace kiln
