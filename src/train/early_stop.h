// When to stop, by the epochs' validation losses.
#pragma once

#include <limits>

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

}  // namespace kiln
