// Which steps of a process are drawn on its timeline: a few, once the first ones have warmed up
// memory, caches and libraries.
#pragma once

#include "base/timeline.h"
#include "train/step_clock.h"

namespace kiln {

// Counts the steps of this process, over all its epochs. One thread.
class StepTrace {
 public:
  // Both included.
  static constexpr int kFirst = 20, kLast = 40;

  // The timeline outlives this.
  explicit StepTrace(Timeline& timeline) : timeline_(timeline) {}

  // Around each step, with the clock of its epoch; after_step() only of one that was made.
  void before_step(StepClock& clock);
  void after_step(StepClock& clock);

  int steps() const { return steps_; }  // made so far

 private:
  Timeline& timeline_;
  int steps_ = 0;
  Timeline::Time begin_;
};

}  // namespace kiln
