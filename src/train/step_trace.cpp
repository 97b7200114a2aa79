#include "train/step_trace.h"

#include <string>

namespace kiln {

void StepTrace::before_step(StepClock& clock) {
  const int step = steps_ + 1;
  if (step < kFirst || step > kLast) return;
  if (step == kFirst) timeline_.begin();
  if (!clock.is_traced()) clock.trace(&timeline_);
  begin_ = Timeline::Clock::now();
}

void StepTrace::after_step(StepClock& clock) {
  ++steps_;
  if (steps_ < kFirst || steps_ > kLast) return;
  timeline_.add(Timeline::kSteps, "step " + std::to_string(steps_), begin_, Timeline::Clock::now());
  if (steps_ < kLast) return;
  clock.trace(nullptr);
  timeline_.end();
}

}  // namespace kiln
