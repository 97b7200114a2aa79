// How the training of a run went, from the numbers of its epochs.
#pragma once

#include <vector>

#include "report/record/run_record.h"
#include "report/record/run_summary.h"

namespace kiln {

// How training stands at its end. One of these, so that no two findings contradict each other.
enum class Trend { kNone, kDiverged, kOverfitting, kLossRising, kImproving, kSteady };

Trend trend_of(const RunRecord& run, const RunSummary& summary);

// The epoch with the lowest validation loss; null where no loss is a number.
const EpochRecord* lowest_loss(const std::vector<EpochRecord>& epochs);
// The first epoch whose loss is not a number; null: none.
const EpochRecord* diverged_epoch(const std::vector<EpochRecord>& epochs);
// The epoch since which top-1 may still be rising: a quarter of the epochs before the last.
const EpochRecord& earlier_epoch(const std::vector<EpochRecord>& epochs);

}  // namespace kiln
