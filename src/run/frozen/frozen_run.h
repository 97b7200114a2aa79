// Trains only the head, while the rest of the network and the images' pixels stay the same: each
// image passes through the network once, and the head is fitted to the resulting features.
#pragma once

#include <vector>

#include "model/image_model.h"
#include "record/training_record.h"
#include "run/run.h"
#include "train/evaluation.h"
#include "train/features/head_fit.h"
#include "train/state.h"

namespace kiln {

struct FrozenResult {
  OutOfFold out_of_fold;  // predictions for the training images; on rank 0, with --folds
  std::vector<Prediction> predictions;  // for the images used to evaluate the head; on rank 0
  Totals judged;                        // totals over these images, of all ranks
  double forward_seconds = 0;           // pass over the training images, without waiting for data
  double train_seconds = 0;             // the same, with waiting for data
  double valid_seconds = 0;             // pass over the validation images, with waiting for data
};

// Replaces all epochs of a plan with `uses_features`, or the first epoch of one with
// `is_automatic`. Unless a stop signal ends the run (Stop::now()), the state's best epoch, the
// first, is the network with its new head afterwards. Writes no checkpoints, since it is short: a
// run stopped here starts over. `model` is the state's model or a copy with the same weights; it
// must not be used afterwards. --time-limit does not shorten this; a warning says so if it matters.
// A collective.
FrozenResult train_on_features(Run& run, ImageModel& model);

}  // namespace kiln
