// An image set as bytes and back, so that one rank scans the folders and the others take its word.
#pragma once

#include <string>
#include <string_view>

#include "data/image_set.h"

namespace kiln {

// kList: everything but `root` and `name`, which each rank knows, and `notes` and `stamps`, which
// only the reader tells. kWithSources: these two as well.
enum class SetParts { kList, kWithSources };

std::string to_bytes(const ImageSet& set, SetParts parts);

// `bytes` is what to_bytes() of the same build made; throws InternalError otherwise. Archives are
// named but not open.
ImageSet image_set_of(std::string_view bytes, SetParts parts);

}  // namespace kiln
