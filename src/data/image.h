// Pixels of one image in main memory.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln {

struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;
};

struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  // RGB, [H, W, 3], rows without padding
};

}  // namespace kiln
