// The validation half of an epoch: what the model makes of the validation images of all ranks.
#pragma once

#include <vector>

#include "base/training_record.h"
#include "model/image_model.h"
#include "parallel/ranks/world.h"
#include "run/bad_images.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/evaluation.h"

namespace kiln {

// What the model made of this rank's validation images.
struct Validation {
  std::vector<Prediction> predictions;
  HostLogits logits;  // of the images that choose the temperature
};

// What a validation works with. All must outlive it.
struct ValidationParts {
  TrainingJob& job;
  ImageModel& model;
  RunLogger& log;
  BadImageLedger& bad_images;
};

// Evaluates this rank's images and sets the validation numbers of `record`, over all ranks; its
// epoch is set already. Returns the stop signal that all ranks act on, or 0. A collective. Throws
// as check_epoch(), and as BadImageLedger::record().
int validate(const ValidationParts& parts, EpochRecord& record, Validation& result);

// The vote that ends a pass over validation images, of this rank or, after it, of all ranks.
struct ValidationVote {
  int stop_signal = 0;  // 0: none
  bool has_bad_images = false;
  Totals totals;
  std::vector<double> class_counts = {};  // as class_counts() makes them
};

// Sums what the ranks found; this rank's stop signal is asked for here. A collective.
ValidationVote vote_on_validation(World& world, const ValidationVote& mine);

}  // namespace kiln
