// The trend of a run's training, derived from its epochs.
#pragma once

#include <vector>

#include "record/run_record.h"
#include "record/run_summary.h"

namespace kiln {

// The state of training at its end; overfitting is that of the saved model. Exactly one applies, so
// that no two findings contradict each other.
enum class Trend { kNone, kDiverged, kOverfitting, kLossRising, kImproving, kSteady };

Trend trend_of(const RunRecord& run, const RunSummary& summary);

// The epoch with the lowest validation loss; nullptr if no loss is a number.
const EpochRecord* lowest_loss(const std::vector<EpochRecord>& epochs);
// The first epoch whose loss is not a number; nullptr if there is none.
const EpochRecord* diverged_epoch(const std::vector<EpochRecord>& epochs);
// The epoch to compare with the last one to see whether top-1 is still rising: a quarter of the
// epochs earlier.
const EpochRecord& earlier_epoch(const std::vector<EpochRecord>& epochs);

}  // namespace kiln
