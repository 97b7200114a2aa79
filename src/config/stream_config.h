// Training images that come in a stream.
#pragma once

#include <cstdint>

namespace kiln {

struct StreamConfig {
  std::int64_t steps_per_epoch = 0;  // 0: not given
  int shuffle_buffer = 1000;         // images
  bool by_record = false;  // every rank's stream has all images, and each rank takes its part
};

}  // namespace kiln
