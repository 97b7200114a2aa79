// One epoch of a run: training, then validation. The loop over epochs is in
// training_run.cpp, the step itself in train/step.h.
#pragma once

#include <optional>

#include "record/evaluation.h"
#include "record/training_record.h"
#include "run/run.h"
#include "train/evaluation.h"

namespace kiln {

// The training half of an epoch, starting at the step that the state has reached: returns its
// record, whose sums are over all ranks, and leaves the same model on all of them. If a stop signal
// ends the run meanwhile (Stop::now()), the record is void. A collective. Throws Error
// kFailedToCompleteOperation on all ranks if a loss was not finite.
EpochRecord train_epoch(Run& run, int epoch);

// The validation half: evaluates the model on the validation images of all ranks, completes the
// record, and keeps the model if it is the best so far. Then returns the details for the record. If
// a stop signal ends the run meanwhile, the record is void. A collective. Throws as check_epoch().
std::optional<ValidationDetails> judge_epoch(Run& run, EpochRecord& record);

// Advances the state to the next epoch, and agrees with the other ranks on what follows. A
// collective.
void end_epoch(Run& run, const EpochRecord& record);

// Throws Error kInvalidDataset if one of the two datasets had no usable image, and
// kFailedToCompleteOperation if the validation loss is not finite. The record must be over all
// ranks.
void check_epoch(const EpochRecord& record);

}  // namespace kiln
