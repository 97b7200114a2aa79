// The features of images by the model that a run saves. With them its later answers can say that a
// picture is unlike the training images (train/features/likeness.h).
#pragma once

#include <string>

#include "run/run.h"

namespace kiln {

inline constexpr double kFeatureShare = 0.05;  // of a run

// One pass of the best epoch's network over some of the images, prepared as for validation, by all
// ranks; the network in the state has its weights afterwards. At most a twentieth of the images
// that the run has gone through, and with --time-limit of its time. On rank 0 returns
// features.safetensors; empty if there is none, which one line explains. A fault of the pass is
// such a reason, too; a rank that is missing is not. Call it when the last checkpoint is written. A
// collective.
std::string features_of_saved(Run& run);

// The same for training_features.safetensors, if --keep-features asks for it: of all training
// images that can be decoded, however long that takes. Rank 0 needs memory for the features of all,
// as float32, three times.
std::string training_features_of_saved(Run& run);

// Copies the best epoch's last layers, where this rank has them, to the network in the state.
void restore_head(Run& run);

}  // namespace kiln
