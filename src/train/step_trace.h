// Selects the steps of a process that its timeline shows: a few, after the first ones have warmed
// up memory, caches and libraries.
#pragma once

#include "base/timeline.h"
#include "train/step_clock.h"

namespace kiln {

// Counts the steps of this process, over all its epochs. One thread.
class StepTrace {
 public:
  // Both included.
  static constexpr int kFirst = 20, kLast = 40;

  // The timeline must outlive this object.
  explicit StepTrace(Timeline& timeline) : timeline_(timeline) {}

  // Call around each step with the clock of its epoch; after_step() only if the step was made.
  void before_step(StepClock& clock);
  void after_step(StepClock& clock);

  int steps() const { return steps_; }  // made so far

 private:
  Timeline& timeline_;
  int steps_ = 0;
  Timeline::Time begin_;
};

}  // namespace kiln
