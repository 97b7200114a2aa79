// Options for training images that arrive as a stream.
#pragma once

#include <cstdint>

namespace kiln {

struct StreamConfig {
  std::int64_t steps_per_epoch = 0;  // 0: not given
  int shuffle_buffer = 1000;         // images
  // --shard-by. by_record: every rank gets all images and keeps its share. by_host: ranks of
  // different hosts get the same images at the same path, also as files, and divide them.
  bool by_record = false, by_host = false;
};

}  // namespace kiln
