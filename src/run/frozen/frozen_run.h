// The training of a head alone, where the rest of the network and the images' pixels stay as they
// are: each image goes through the network once, and the head is fitted to the features.
#pragma once

#include <vector>

#include "features/out_of_fold.h"
#include "model/image_model.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/evaluation.h"
#include "train/state.h"

namespace kiln {

struct FrozenResult {
  // The one that all ranks act on; 0: none, and the state's best epoch, the first, is the network
  // with its new head.
  int stop_signal = 0;
  OutOfFold out_of_fold;                // answers for the training images; on rank 0, with --folds
  std::vector<Prediction> predictions;  // for the images that judge the head; on rank 0
  Totals judged;                        // the sums over these images of all ranks
  double forward_seconds = 0;  // the pass over the training images, without waiting for them
  double train_seconds = 0;    // the same, with waiting
  double valid_seconds = 0;    // the pass over the validation images, with waiting
};

// Instead of the epochs, or as the first of them, for a job that uses_features or is_automatic. It
// is too short for checkpoints: a run that was stopped starts over. `model` has the weights of the
// state's, or is it, and is used up. --time-limit does not shorten it, which a warning tells where
// it matters. A collective.
FrozenResult train_on_features(TrainingJob& job, TrainState& state, ImageModel& model,
                               RunLogger& log);

}  // namespace kiln
