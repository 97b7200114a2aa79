// Small pictures of images, for pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "base/training_record.h"
#include "data/dataset/dataset.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// Image `i` as `plan` shows it to a model, but no longer than 96 pixels a side and not augmented;
// with_heat_map() of `map`, if that is defined. Without bytes for an image that can no longer be
// read.
Thumbnail thumbnail_of(const Dataset& set, std::size_t i, const TransformSpec& plan,
                       const at::Tensor& map = {});

}  // namespace kiln
