// Thumbnails of images, for HTML pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"
#include "record/training_record.h"

namespace kiln {

// Image `i` as a model sees it through `plan`, but not augmented and with sides of at most 96
// pixels; overlaid with `map` by with_heat_map() if that is defined. Has no bytes if the image can
// no longer be read.
Thumbnail thumbnail_of(const Dataset& set, std::size_t i, const TransformSpec& plan,
                       const at::Tensor& map = {});

}  // namespace kiln
