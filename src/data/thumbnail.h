// A small picture of an image, for people.
#pragma once

#include <cstddef>

#include "base/training_record.h"
#include "data/image_set.h"
#include "data/pixel_plan.h"

namespace kiln {

// Image `i` as `plan` shows it to a model, but no longer than 96 pixels a side and not augmented.
// Without bytes for an image that can no longer be read.
Thumbnail thumbnail_of(const ImageSet& set, std::size_t i, const PixelPlan& plan);

}  // namespace kiln
