// The sizes of many images from their headers, read in parallel.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "data/image_set.h"

namespace kiln {

// The size of each item: the list's where it gives one, else the header's; empty where the header
// cannot be read (the loader will meet that image and say why).
std::vector<std::optional<ImageSize>> scan_sizes(const ImageSet& set, int num_threads);

// The size that all images share; empty when they differ or none is known.
std::optional<ImageSize> common_size(const std::vector<std::optional<ImageSize>>& sizes);

}  // namespace kiln
