// Pixels -> file bytes, for the images that the program draws itself.
#pragma once

#include <string>

#include "data/image.h"

namespace kiln {

std::string encode_jpeg(const Image& image, int quality);
std::string encode_png(const Image& image);

}  // namespace kiln
