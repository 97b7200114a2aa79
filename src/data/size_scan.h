// The sizes of many images from their headers, read in parallel.
#pragma once

#include <optional>
#include <vector>

#include "data/image_set.h"

namespace kiln {

// kCommon: no more than it takes to see that two differ.
enum class SizesWanted { kAll, kCommon };

// Fills in sizes that the list does not give, from the headers; how many. A header that cannot be
// read leaves its size unknown (the loader will meet that image and say why).
std::size_t scan_sizes(ImageSet& set, SizesWanted wanted);

// The size that all images of all sets share; empty when they differ or none is known.
std::optional<ImageSize> common_size(const std::vector<const ImageSet*>& sets);

}  // namespace kiln
