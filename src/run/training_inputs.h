// Everything a training run reads before it starts, checked together.
#pragma once

#include "base/error.h"
#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "data/loader/batch_loader.h"
#include "data/loader/sampler.h"
#include "store/model_directory.h"

namespace kiln {

struct TrainingInputs {
  Shard train_share, valid_share;  // among all ranks, or those that were given the same part
  std::int64_t steps_per_epoch = 0;
  Dataset train, valid;  // the validation labels are ids of the training classes
  ModelDirectory untrained;
  TransformSpec pixels, valid_pixels;
  std::string size_reason;  // for the log
  Normalization normalization;
  std::string normalization_name;  // "half" or "imagenet"
  int smallest_batch = 1;          // 2 where BatchNorm sees a 1x1 map
  // Warnings before training begins; what is to be said of an image set stands in that set.
  std::vector<std::string> notes;
};

// Reads training data, validation data and model. Their faults are added to `problems` in this
// order, so that they can be told with others. Paths that are empty, on a command line at fault,
// are passed over.
TrainingInputs read_training_inputs(const DataConfig& config, Problems& problems);

// Fills in the rest, from inputs without fault. Error kInvalidDataset: the images are too small for
// the network.
void choose_transforms(const DataConfig& config, TrainingInputs& inputs);

// What validation does to an image, for the trained model.
Preprocessing preprocessing_of(const TrainingInputs& inputs);

// Throws Error kLessThanOrEqualTo or kGreaterThanOrEqualTo. Passes over what could not be read.
void check_batch_size(const OptimizationConfig& config, const TrainingInputs& inputs,
                      int num_ranks);

// What choose_transforms() chose, for ranks that have not read the images.
struct TransformChoice {
  TransformSpec pixels, valid_pixels;
  int smallest_batch = 1;
  bool by_imagenet = false;  // how pixels are normalized
  bool operator==(const TransformChoice&) const = default;
};
TransformChoice transform_choice(const TrainingInputs& inputs);
void take_transform_choice(const DataConfig& config, const TransformChoice& choice,
                           TrainingInputs& inputs);

}  // namespace kiln
