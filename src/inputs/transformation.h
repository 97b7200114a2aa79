// The operations of a TransformationDirectory, read for use.
#pragma once

#include <filesystem>

#include "data/transform/image_chain.h"

namespace kiln {

// Throws Problems of Error kInvalidTransformationDirectory: the directory cannot be read or is no
// transformation, or faults of its operations.
TransformChain read_transformation(const std::filesystem::path& folder);

}  // namespace kiln
