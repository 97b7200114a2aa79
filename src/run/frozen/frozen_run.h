// Trains only the head, while the rest of the network and the images' pixels stay the same: each
// image passes through the network once, and the head is fitted to the resulting features. With
// --auto this is the first epoch; later epochs of fine-tuning are kept unless it is better on the
// validation images.
#pragma once

#include "record/training_record.h"
#include "run/run.h"

namespace kiln {

// For a plan with `uses_features` this is all training; with `is_automatic` it is the first epoch,
// unless a resumed run has already done it, and the starting point of fine-tuning. Unless a stop
// signal ends the run (Stop::now()), the state's best epoch, the first, is the network with its new
// head afterwards. Writes no checkpoints meanwhile, since it is short: a run stopped here starts
// over. --time-limit shortens the fit alone, not the pass of the images; a warning says so. A
// collective.
void fit_head_first(Run& run);

// Whether an epoch of fine-tuning may become the best one: unless the frozen network is better by
// --best-by, since on few images fine-tuning is worth more than a test can show (bench/trust.py);
// always without --auto. Keeps its own account of every epoch. The same on all ranks.
bool holds_against_head(Run& run, const EpochRecord& record);

// Call at the end of training: records which of the two is kept, and why.
void record_automatic(Run& run);

}  // namespace kiln
