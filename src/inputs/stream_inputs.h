// Training images that come in a stream: what is known of them before, and what cannot be done.
#pragma once

#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "data/stream/stream_loader.h"
#include "inputs/training_inputs.h"

namespace kiln {

// The training dataset at the stream path of `config`: no samples, and the classes of `valid`.
Dataset stream_dataset(const DataConfig& config, const Dataset& valid);

// Throws Error kParameterParsing: an option that streams lack or cannot have, one that only they
// can have, or several ranks that would read one stream.
void check_stream_options(const TrainConfig& config, const TrainingInputs& inputs, int num_ranks);

// What one rank reads; without the parts of the loaders: slots, scaling, and who is warned.
StreamLoader::Plan stream_plan(const TrainConfig& config, const TrainingInputs& inputs);

}  // namespace kiln
