// Resampling of 8-bit RGB with Pillow's filters other than bilinear, giving Pillow's results: each
// pixel is a weighted sum of the pixels within reach of the filter, first along rows, then along
// columns, rounded to 8 bits after each pass. Bilinear is in resample.h, for speed.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image/image.h"

namespace kiln {

enum class ResizeFilter { kNearest, kLanczos, kBicubic, kBox, kHamming };

// Resizes `region` of an image of size `whole` to [resized.height, resized.width, 3]. `scratch` is
// reusable memory.
void resize_with_filter(const std::uint8_t* pixels, ImageSize whole, const Region& region,
                        ImageSize resized, ResizeFilter filter, std::vector<std::uint8_t>& scratch,
                        std::uint8_t* target);

}  // namespace kiln
