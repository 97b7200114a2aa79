// Resampling of 8-bit RGB with the filters that Pillow has beside bilinear, with its results: each
// pixel of a row and then of a column is a weighted sum of those that the filter reaches, rounded
// to 8 bits. For speed, bilinear is resample.h's.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image/image.h"

namespace kiln {

enum class ResizeFilter { kNearest, kLanczos, kBicubic, kBox, kHamming };

// `region` of an image of size `whole` -> [resized.height, resized.width, 3]. `scratch` is memory.
void resize_with_filter(const std::uint8_t* pixels, ImageSize whole, const Region& region,
                        ImageSize resized, ResizeFilter filter, std::vector<std::uint8_t>& scratch,
                        std::uint8_t* target);

}  // namespace kiln
