// Images that come in streams: what is known of those for training before, what cannot be done, and
// how they are read.
#pragma once

#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "data/stream/kept_stream.h"
#include "data/stream/stream_loader.h"
#include "inputs/training_inputs.h"

namespace kiln {

// The training dataset at the stream path of `config`: no samples, and the classes of `valid`.
Dataset stream_dataset(const DataConfig& config, const Dataset& valid);

// Throws Error kParameterParsing: an option that streams lack or cannot have, one that only they
// can have, or several ranks that would read one stream.
void check_stream_options(const TrainConfig& config, const TrainingInputs& inputs, int num_ranks);

// Throws the same where --data-path is a stream.
void refuse_split_of_stream(const std::string& path);

// The same of validation images that come in a stream.
void check_valid_stream(const DataConfig& config);

// Of a validation stream, for each of the ranks that share a host's memory; without who is warned.
KeptStreamPlan valid_stream_plan(const TrainConfig& config, int ranks_on_host);

// What one rank reads; without the parts of the loaders: slots, scaling, and who is warned.
// `inputs` must outlive it.
StreamLoader::Plan stream_plan(const TrainConfig& config, const TrainingInputs& inputs);

}  // namespace kiln
