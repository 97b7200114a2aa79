// The operations of a TransformationDirectory, read for use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/transform/image_pipeline.h"

namespace kiln {

// Throws Problems of Error kInvalidTransformationDirectory: the directory cannot be read or is no
// transformation, or faults of its operations.
TransformChain read_transformation(const std::filesystem::path& folder);

// Whether images have one size after either form of it, whatever they were.
bool gives_one_size(const TransformChain& chain);

// How training and validation images become pixels by a transformation.
struct ChainPlans {
  TransformSpec train, valid;
};

// `whole_image`: the size of all images, if they have one. Throws Error kInvalidDataset naming
// `path` (--transform-path) if the images of either form would have several sizes, or if an
// operation does not take them.
ChainPlans plans_of(const TransformChain& chain, std::optional<ImageSize> whole_image,
                    const std::string& path);

}  // namespace kiln
