// Linear warm-up, then half a cosine down to 1e-7. Loshchilov and Hutter, "SGDR: Stochastic
// Gradient Descent with Warm Restarts", arXiv:1608.03983, without restarts.
//
//   e >= W: rate = 1e-7 + (L - 1e-7) * (1 + cos(pi * (e - W) / (E - W))) / 2        e from 0
#include <cmath>
#include <numbers>

#include "train/schedule/schedule.h"

namespace kiln {

double cosine_rate(const SchedulePlan& plan, double epochs) {
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return warmup_rate(plan, epochs);
  const double done = (epochs - warmup) / (plan.epochs - warmup);
  return kRateFloor + (plan.peak - kRateFloor) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace kiln
