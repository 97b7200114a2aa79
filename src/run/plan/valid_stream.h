// Reads validation images from a stream, for all ranks.
#pragma once

#include <optional>

#include "base/log.h"
#include "config/run_config.h"
#include "data/dataset/dataset.h"
#include "parallel/ranks/world.h"

namespace kiln {

// Empty unless rank 0 finds a stream at --valid-data-path, which it then reads to its end; every
// rank keeps all images. A collective. Throws as check_valid_stream() and keep_stream().
std::optional<Dataset> keep_valid_stream(World& world, const TrainConfig& config, Log& log);

}  // namespace kiln
