// Options for training images that arrive as a stream.
#pragma once

#include <cstdint>

namespace kiln {

struct StreamConfig {
  std::int64_t steps_per_epoch = 0;  // 0: not given
  int shuffle_buffer = 1000;         // images
  bool by_record = false;            // every rank gets all images and keeps its share
};

}  // namespace kiln
