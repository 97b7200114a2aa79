// Reads validation images from a stream, for all ranks.
#pragma once

#include "base/log.h"
#include "cli/run_config.h"
#include "data/archive/archive.h"
#include "parallel/ranks/world.h"

namespace kiln {

// The stream as it came, in a file that the ranks of a host share and that has no name; not open
// unless rank 0 finds a stream at --valid-data-path, which it then reads to its end. A collective.
// Throws as check_valid_stream(); Error kInvalidDataset if the stream cannot be read or is silent
// for too long, kUserError if a host's folder for temporary files cannot hold it.
OpenFile spool_valid_stream(World& world, const TrainConfig& config, Log& log);

}  // namespace kiln
