// All that the random operations on an image depend on.
#pragma once

#include <cstdint>

namespace kiln {

struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t image = 0;   // its index in the dataset
  std::uint64_t repeat = 0;  // how often it came earlier in the epoch
};

}  // namespace kiln
