#include "train/schedule.h"

namespace kiln {

double Schedule::rate(int epoch) const {
  if (epoch < warmup_epochs) return kWarmupStart + (peak - kWarmupStart) * epoch / warmup_epochs;
  const double left = 1.0 - static_cast<double>(epoch - warmup_epochs) / (epochs - warmup_epochs);
  return (peak - kFloor) * left * left + kFloor;
}

}  // namespace kiln
