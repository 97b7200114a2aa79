// The validation half of an epoch: evaluates the model on the validation images of all ranks.
#pragma once

#include <vector>

#include "model/image_model.h"
#include "record/training_record.h"
#include "run/bad_images.h"
#include "run/prepare/prepare.h"
#include "run/run_logger.h"
#include "train/evaluation.h"

namespace kiln {

// The model's results on this rank's validation images.
struct Validation {
  std::vector<Prediction> predictions;
  HostLogits logits;  // of the images used to fit the temperature
};

// What validate() uses.
struct ValidationParts {
  TrainingJob& job;
  ImageModel& model;
  RunLogger& log;
  BadImageLedger& bad_images;
};

// Evaluates this rank's images and sets the validation metrics of `record`, over all ranks;
// `record.epoch` must already be set. Returns the stop signal that all ranks act on, or 0. A
// collective. Throws as check_epoch() and BadImageLedger::record().
int validate(const ValidationParts& parts, EpochRecord& record, Validation& result);

}  // namespace kiln
