// --auto during a run: as the first epoch, fits the head of the frozen network; later epochs of
// fine-tuning are kept only if they are better on the validation images.
#pragma once

#include <string>
#include <vector>

#include "record/evaluation.h"
#include "record/training_record.h"
#include "run/run.h"
#include "train/evaluation.h"

namespace kiln {

// With --auto, runs the first epoch unless a resumed run has already done it: the frozen network
// with the fitted head becomes the state's best epoch and the starting point of fine-tuning. With
// features alone (Plan::uses_features) that is all training. A run that is stopped here starts
// over. A collective.
void fit_head_first(Run& run);

// Whether an epoch of fine-tuning may become the best one: if it is better than the frozen network,
// significant at 5 % by McNemar's test; always without --auto. Keeps its own account of every
// epoch. `predictions` are this rank's. A collective.
bool is_better_than_head(Run& run, const EpochRecord& record,
                         const std::vector<Prediction>& predictions);

// Call at the end of training: records which of the two is kept, and why.
void record_automatic(Run& run);

// One character per image, as in AutomaticProgress::answers.
std::string packed_answers(const std::vector<Prediction>& predictions, std::size_t num_images);

// Counts the images that both have answered. `second` may be in any order.
PairedAnswers paired(const std::string& first, const std::vector<Prediction>& second);

}  // namespace kiln
