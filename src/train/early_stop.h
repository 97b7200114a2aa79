// When to stop, and which epoch is the best: two small judgements over the epochs' validation
// numbers.
#pragma once

#include <limits>

#include "base/training_record.h"

namespace kiln {

// From the second epoch: one more strike when the loss did not fall below the previous epoch's,
// else none.
class Patience {
 public:
  explicit Patience(int patience) : patience_(patience) {}
  // True when `patience` strikes in a row are reached. `valid_loss` is finite.
  bool exhausted_after(double valid_loss) {
    strikes_ = valid_loss >= previous_ ? strikes_ + 1 : 0;
    previous_ = valid_loss;
    return strikes_ >= patience_;
  }

 private:
  int patience_;
  int strikes_ = 0;
  double previous_ = std::numeric_limits<double>::infinity();
};

// Highest top-1; then lower loss; then earlier.
inline bool is_better(const Totals& candidate, const Totals& best) {
  if (candidate.top1 != best.top1) return candidate.top1 > best.top1;
  return candidate.loss_sum < best.loss_sum;
}

}  // namespace kiln
