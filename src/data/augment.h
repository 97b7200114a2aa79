// What is drawn for an image before it is resized. Every function takes what it needs from the
// sequence it is given, so that a key (seed, epoch, image) fixes it.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "data/image.h"

namespace kiln {

// A part of 8 % to 100 % of the area and a width of 3/4 to 4/3 of the height (log-uniform), uniform
// in place; after ten draws that do not fit, the largest centre whose ratio is within the range. As
// torchvision's RandomResizedCrop chooses it.
Region draw_crop(ImageSize whole, RandomSequence& random);

// A quarter of the time, fills a rectangle of 2 % to 33 % of the area and a height of 0.3 to 3.3
// times the width with `color` (Zhong et al., "Random Erasing Data Augmentation", AAAI 2020).
void random_erase(std::uint8_t* pixels, ImageSize size, const std::uint8_t* color,
                  RandomSequence& random);

}  // namespace kiln
