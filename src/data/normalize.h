// Bytes of a batch -> the numbers that a network takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kiln {

struct PixelScaling {
  std::array<double, 3> mean{}, std{};  // of R, G, B as 0 to 1
};

// out = (rgb / 255 - mean) / std, in the order of the bytes: [num_pixels, 3]. Rounded to float
// after every operation, so the bits are those of torchvision's ToTensor and Normalize. Any thread.
void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const PixelScaling& scaling,
                      float* out);

}  // namespace kiln
