// Linear warm-up from 1e-4, then quadratic decay to 1e-7: the designer's schedule.
//
//   e < W:  rate = 1e-4 + (L - 1e-4) * e / W
//   e >= W: rate = (L - 1e-7) * (1 - (e - W) / (E - W))^2 + 1e-7        e from 0
#include "train/schedule/schedule.h"

namespace kiln {

double polynomial_rate(const SchedulePlan& plan, double epochs) {
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return warmup_rate(plan, epochs);
  const double left = 1.0 - (epochs - warmup) / (plan.epochs - warmup);
  return (plan.peak - kRateFloor) * left * left + kRateFloor;
}

}  // namespace kiln
