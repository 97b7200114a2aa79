// What of the images is kept in memory from one epoch to the next.
#pragma once

#include <cstddef>
#include <string>

#include "config/run_config.h"
#include "data/image_cache.h"
#include "run/training_inputs.h"

namespace kiln {

struct CacheChoice {
  CacheKind train = CacheKind::kNone, valid = CacheKind::kNone;
  std::size_t train_limit_bytes = 0, valid_limit_bytes = 0;
  std::string reason;  // for the log: "decoded images, 12 MB of 2.10 GB"
};

// --cache and --cache-bytes for one of `ranks_on_host` processes that share a host's memory. With
// auto: decoded images where all of them fit and every epoch takes the same pixels; else the stored
// bytes where files come over a network; else nothing, as the system keeps files of local disks.
// Error kUserError: the limit that was asked for holds not even one decoded image, or one file.
CacheChoice choose_cache(const DataConfig& config, const TrainingInputs& inputs, int ranks_on_host);

}  // namespace kiln
