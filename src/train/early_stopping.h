// Early stopping, based on the validation of each epoch.
#pragma once

#include <limits>

#include "base/training_record.h"
#include "base/vocabulary.h"

namespace kiln {

// The metric of an epoch that --best-by names; higher is better.
inline double figure_of(const JudgedEpoch& epoch, BestBy by) {
  if (by == BestBy::kLoss) return -epoch.valid.loss();
  return by == BestBy::kMacroRecall ? epoch.macro_recall : epoch.valid.top1_accuracy();
}

// Plain values: part of the training state.
struct EarlyStopping {
  int patience = 3;
  int strikes = 0;
  double previous_loss = std::numeric_limits<double>::infinity();
  double best_figure =
      -std::numeric_limits<double>::infinity();  // of the last epoch that counted as better
  int epochs = 0;                                // number of epochs added
  // Settings, like patience.
  StopWhen when = StopWhen::kPrevious;
  BestBy best_by = BestBy::kTop1;
  double min_delta = 0;
  int min_epochs = 0;

  // Counts consecutive epochs without improvement by more than min_delta: over the previous epoch
  // by validation loss, or with StopWhen::kBest over the best epoch by the --best-by metric. The
  // loss must be finite.
  void add(const JudgedEpoch& epoch) {
    const double loss = epoch.valid.loss(), figure = figure_of(epoch, best_by);
    const bool is_better = when == StopWhen::kBest ? figure > best_figure + min_delta
                                                   : !(loss >= previous_loss - min_delta);
    strikes = is_better ? 0 : strikes + 1;
    previous_loss = loss;
    if (is_better) best_figure = figure;
    ++epochs;
  }
  bool exhausted() const {
    return when != StopWhen::kOff && strikes >= patience && epochs >= min_epochs;
  }
};

}  // namespace kiln
