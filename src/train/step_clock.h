// Where the time of training steps goes, part by part. On a GPU parts are measured by events in its
// stream, so that nobody waits for it. One thread.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "base/training_record.h"

namespace kiln {

class StepClock {
 public:
  explicit StepClock(const c10::Device& device);
  ~StepClock();
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  // A part begins; parts follow each other, and the last before stop() ends there.
  void begin(double StepTimes::*part);
  void stop();

  // The sum of all parts that have ended, on a GPU as far as it has come.
  StepTimes times();

 private:
  class Marks;
  std::unique_ptr<Marks> marks_;
};

}  // namespace kiln
