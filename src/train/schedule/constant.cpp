// Linear warm-up, then the peak rate until the end.
#include "train/schedule/schedule.h"

namespace kiln {

double constant_rate(const SchedulePlan& plan, double epochs) {
  return epochs < plan.warmup_epochs ? warmup_rate(plan, epochs) : plan.peak;
}

}  // namespace kiln
