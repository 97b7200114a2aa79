// The training of a head alone, where the rest of the network and the images' pixels stay as they
// are: each image goes through the network once, and the head is fitted to the features.
#pragma once

#include "features/out_of_fold.h"
#include "run/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

struct FrozenResult {
  int stop_signal = 0;    // that all ranks act on; 0: the model is in the state, as epoch 1
  OutOfFold out_of_fold;  // of the training images; on rank 0, with --folds
};

// In place of the epochs, from begin() to save(), for a job that uses_features. It is too short for
// checkpoints: a run that was stopped starts over. The model of the state is used up. A collective.
FrozenResult train_on_features(TrainingJob& job, TrainState& state, RunLogger& log);

}  // namespace kiln
