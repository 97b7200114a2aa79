// Rises along half a cosine from 1/25 of the peak to the peak, then falls along another to 1/10,000
// of the starting rate. Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks
// Using Large Learning Rates", arXiv:1708.07120. The constants are those of PyTorch's OneCycleLR,
// which also cycles the momentum.
//
// Let u be the time of a step, in epochs. The peak is the last rate of the first W epochs, reached
// after W - u epochs. The lowest rate is the last one, reached after E - u epochs.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/schedule/schedule.h"

namespace kiln {
namespace {

constexpr double kStartDivisor = 25, kEndDivisor = 1e4, kUsualShare = 0.3;

// From `start` to `end`, as `done` goes from 0 to 1.
double between(double start, double end, double done) {
  return end + (start - end) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace

double onecycle_rate(const SchedulePlan& plan, double epochs) {
  const double unit = 1.0 / plan.steps_per_epoch;
  const double warmup = plan.warmup_epochs > 0 ? plan.warmup_epochs : kUsualShare * plan.epochs;
  const double start = plan.peak / kStartDivisor, top = warmup - unit, end = plan.epochs - unit;
  if (epochs < top) return between(start, plan.peak, epochs / top);
  const double done = end > top ? (epochs - top) / (end - top) : 0;
  return between(plan.peak, start / kEndDivisor, std::clamp(done, 0.0, 1.0));
}

}  // namespace kiln
