// An image set as bytes and back, so that one rank scans the folders and the others take its word.
#pragma once

#include <string>
#include <string_view>

#include "data/image_set.h"

namespace kiln {

// Everything but `root`, `name` and `notes`, which each rank knows or only the reader tells.
std::string to_bytes(const ImageSet& set);

// `bytes` is what to_bytes() of the same build made; throws InternalError otherwise.
ImageSet image_set_of(std::string_view bytes);

}  // namespace kiln
