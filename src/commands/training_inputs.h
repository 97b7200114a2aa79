// Everything a training run reads before it starts, checked together.
#pragma once

#include "base/log.h"
#include "config/run_config.h"
#include "data/batch_loader.h"
#include "data/image_set.h"
#include "store/model_directory.h"

namespace kiln {

struct TrainingInputs {
  ImageSet train, valid;  // the validation labels are ids of the training classes
  ModelDirectory untrained;
  PixelPlan pixels;
  int resize_short_side = 0;  // 0: images are used as stored
  std::string size_reason;    // for the log
  Normalization normalization;
  std::string normalization_name;  // "half" or "imagenet"
  int smallest_batch = 1;          // 2 where BatchNorm sees a 1x1 map
};

// Throws Problems with all faults of training data, validation data, model and batch size, in this
// order.
TrainingInputs read_training_inputs(const TrainConfig& config, int num_threads);

}  // namespace kiln
