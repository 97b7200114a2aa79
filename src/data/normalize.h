// Bytes of a batch -> the numbers that a network takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vocabulary.h"

namespace kiln {

// out = (rgb / 255 - mean) / std, in the order of the bytes: [num_pixels, 3]. Rounded to float
// after every operation, so the bits are those of torchvision's ToTensor and Normalize. Any thread.
void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const Normalization& scaling,
                      float* out);

}  // namespace kiln
