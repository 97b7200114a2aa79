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

// A rectangle of an image.
struct Region {
  int top = 0;
  int left = 0;
  ImageSize size;
  bool operator==(const Region&) const = default;
};

// Pixels of a region, not owned: RGB, [H, W, 3] of the region, rows without padding.
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  Region region;
};

}  // namespace kiln
