// Images that arrive as streams: what is known of the training images in advance, which options do
// not apply, and how the streams are read.
#pragma once

#include "cli/run_config.h"
#include "data/dataset/dataset.h"
#include "data/stream/stream_loader.h"
#include "run/inputs/sources.h"
#include "run/inputs/training_loaders.h"

namespace kiln {

// The training dataset for the stream path in `config`: it has no samples, and the classes of
// `valid`.
Dataset stream_dataset(const DataConfig& config, const Dataset& valid);

// Throws Error kParameterParsing for a missing option that streams require, an option that streams
// do not allow or that only streams allow, and several ranks that would read the same stream.
void check_stream_options(const TrainConfig& config, const Sources& sources, int num_ranks);

// Throws the same if --data-path is a stream.
void refuse_split_of_stream(const std::string& path);

// The same check for a stream of validation images.
void check_valid_stream(const DataConfig& config);

// For how long a rank waits for a stream.
StreamSilence::Limits silence_limits(const RanksConfig& config);

// What one rank reads. Leaves out what the loaders fill in: slots, scaling and `warn`. `pixels`
// must outlive the plan.
StreamLoader::Plan stream_plan(const LoadingPlan& plan, const Sources& sources,
                               const PixelPlan& pixels, const Division& division);

}  // namespace kiln
