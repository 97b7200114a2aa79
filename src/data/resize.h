// Resizing and cropping 8-bit pixels. The one .cpp that lets the data room touch LibTorch.
#pragma once

#include "data/image.h"

namespace kiln {

// The S x S centre of `image` after its short side became round(S * 256 / 224) by antialiased
// bilinear resampling, as torchvision's Resize and CenterCrop give it. The long side is floored,
// the crop offset rounded half to even. Call from loader threads only: it sets LibTorch's thread
// count of the calling thread to one.
Image resize_and_crop(const Image& image, int size);

}  // namespace kiln
