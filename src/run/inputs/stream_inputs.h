// Images that arrive as streams: what is known of the training images in advance, which options do
// not apply, and how the streams are read.
#pragma once

#include "base/log.h"
#include "cli/run_config.h"
#include "data/archive/archive.h"
#include "data/dataset/dataset.h"
#include "data/stream/stream_loader.h"
#include "parallel/ranks/world.h"
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

// For how long a rank waits for a stream.
SilenceLimits silence_limits(const RanksConfig& config);

// What one rank reads. Leaves out what the loaders fill in: slots, scaling and `warn`. `pixels`
// must outlive the plan.
StreamPlan stream_plan(const LoadingPlan& plan, const Sources& sources, const PixelPlan& pixels,
                       const Division& division);

// The stream as it came, in a file that the ranks of a host share and that has no name; not open
// unless rank 0 finds a stream at --valid-data-path, which it then reads to its end. A collective.
// Throws as check_valid_stream(); Error kInvalidDataset if the stream cannot be read or is silent
// for too long, kUserError if a host's folder for temporary files cannot hold it.
OpenFile spool_valid_stream(World& world, const TrainConfig& config, Log& log);

}  // namespace kiln
