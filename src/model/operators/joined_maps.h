// DenseNet's normalization in one pass: feature maps are joined, scaled, shifted and rectified as
// they are read. LibTorch has an operator for each of these, which each read and write all of them.
#pragma once

#include <cstdint>
#include <span>

#include "model/operators/maps.h"

namespace kiln {

// Feature maps of images, channels_last without gaps: [images, height, width, channels].
struct Maps {
  const void* data;
  std::int64_t channels;
};

struct MapShape {
  std::int64_t images, height, width;
  MapType type;  // of input and output: kFloat32 or kBfloat16; computed in float32
};

// out = relu(x * scale + shift), x being all of `maps` joined along their channels; NaN stays NaN.
// `scale`, `shift`: a number for each channel of x. `side`: 1, or 2 for the means of 2x2 pixels of
// that, where a last odd row or column is left out. `out`: [images, height / side, width / side,
// channels of x]. Uses LibTorch's OpenMP threads.
void joined_relu(std::span<const Maps> maps, const MapShape& shape, const float* scale,
                 const float* shift, int side, void* out);

}  // namespace kiln
