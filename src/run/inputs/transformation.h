// Reads the operations of a TransformationDirectory and applies them to a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/transform/image_pipeline.h"

namespace kiln {

// Throws Problems with Error kInvalidTransformationDirectory if the directory cannot be read or is
// not a transformation, and for faults in its operations.
TransformChain read_transformation(const std::filesystem::path& folder);

// Whether both forms of the chain turn images of any size into images of one size.
bool gives_one_size(const TransformChain& chain);

// How a transformation preprocesses training and validation images.
struct ChainPlans {
  TransformSpec train, valid;
};

// `whole_image`: the size of all images, if they have a common one. Throws Error kInvalidDataset
// naming `path` (--transform-path) if the images of either form would have different sizes, or if
// an operation does not accept them.
ChainPlans plans_of(const TransformChain& chain, std::optional<ImageSize> whole_image,
                    const std::string& path);

}  // namespace kiln
