// Which part of an image becomes the output, and at what scale: the center crop for evaluation, or
// a random crop. Pure functions.
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

// Half of `excess`, rounded half to even as Python's round does.
int center_offset(int excess);

// The size of an image of size `from` after its short side is resized to `short_side` and its
// aspect ratio kept, as torchvision's Resize does: the long side is rounded down. Throws ImageFault
// if that is too long.
ImageSize resized_size(ImageSize from, int short_side);

// The least size of an image of size `from`, its aspect ratio kept, that covers `out`: one side is
// equal, the other rounded down. Throws ImageFault if it is too long.
ImageSize covering_size(ImageSize from, ImageSize out);

// The center of the resized image, as specified by the plan. Throws ImageFault for an image that
// the plan does not accept.
Placing place_center(ImageSize whole, const TransformSpec& plan);

// `crop` of the image, resized to `out`.
Placing place_crop(const Region& crop, ImageSize out);

// The factor by which the decoder may reduce resolution. Pixels that are the same in every epoch
// are always computed from the full resolution.
double shrinks_by(const Placing& placing, Augment augment);

// Whether pixels are copied unchanged, and from which region.
bool is_copy(const Placing& placing);
Region unchanged_region(const Placing& placing);

// Copies `wanted`, which lies inside the view, to `target` as RGB rows without padding, mirrored if
// requested.
void copy_region(const PixelView& view, const Region& wanted, bool mirror, std::uint8_t* target);

}  // namespace kiln
