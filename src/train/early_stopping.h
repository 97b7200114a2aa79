// Early stopping, based on the validation of each epoch.
#pragma once

#include <limits>

namespace kiln {

// Plain values: part of the training state.
struct EarlyStopping {
  int patience = 3;
  int strikes = 0;
  double previous_loss = std::numeric_limits<double>::infinity();

  // Counts consecutive epochs whose validation loss is not below the previous epoch's. The loss
  // must be finite.
  void add(double loss) {
    strikes = loss >= previous_loss ? strikes + 1 : 0;
    previous_loss = loss;
  }
  bool exhausted() const { return strikes >= patience; }
};

}  // namespace kiln
