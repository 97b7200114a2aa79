// Which part of an image becomes the output, and at what scale: the center crop of evaluation, or a
// crop that was drawn. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// How an image is resized and cropped to its output.
struct Placing {
  ResampleAxis rows, columns;
};

// "640 x 480": width and height.
std::string text_of(ImageSize size);

// Half of `excess`, rounded to the even neighbor as Python's round does.
int center_offset(int excess);

// An image of size `from` with its short side resized to `short_side` and its ratio kept, as
// torchvision's Resize: the long side is rounded down. Throws ImageFault where it is too long.
ImageSize resized_size(ImageSize from, std::int64_t short_side);

// The center of the resized image, as the plan says. Throws ImageFault for an image that it does
// not take.
Placing place_center(ImageSize whole, const TransformSpec& plan);

// `crop` of the image, resized to `out`.
Placing place_crop(const Region& crop, ImageSize out);

// The reduction that the decoder may assume. Pixels that are the same in every epoch are computed
// from the full resolution.
double shrinks_by(const Placing& placing, Augment augment);

// Whether pixels are copied as they are, and from which region.
bool is_copy(const Placing& placing);
Region unchanged_region(const Placing& placing);

// Copies `wanted`, which lies in the view, to `target`: RGB rows without padding, mirrored if so.
void copy_region(const PixelView& view, const Region& wanted, bool mirror, std::uint8_t* target);

}  // namespace kiln
