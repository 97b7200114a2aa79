// When to stop, by the epochs' validation losses. Plain values: part of the training state.
#pragma once

#include <limits>

namespace kiln {

struct EarlyStopping {
  int patience = 3;
  int strikes = 0;
  double previous_loss = std::numeric_limits<double>::infinity();

  // One more strike when the loss did not fall below the previous epoch's, else none; true when
  // `patience` strikes in a row are reached. `valid_loss` is finite.
  bool exhausted_after(double valid_loss) {
    strikes = valid_loss >= previous_loss ? strikes + 1 : 0;
    previous_loss = valid_loss;
    return strikes >= patience;
  }
};

}  // namespace kiln
