// Operations that resample: Resize and RandomResizedCrop.
#include <algorithm>

#include "data/image/resample.h"
#include "data/transform/augment.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

// Replaces the image by `part` of it, resized to `to`.
void resize(WorkImage& image, const Region& part, ImageSize to, Interpolation interpolation) {
  if (part == Region{0, 0, to} && image.size == to) return;
  if (!is_plausible({part.size.height, to.width}))  // the size between the two passes
    throw ImageFault("too elongated to resize: " + text_of(part.size));
  std::uint8_t* target = image.begin(to);
  const Placing placing = place_crop(part, to);
  const PixelView view{image.pixels.data(), {0, 0, image.size}};
  if (part.size == to)
    copy_region(view, part, false, target);
  else if (interpolation == Interpolation::kBilinear)
    image.resampler.write(view, placing.rows, placing.columns, false, target);
  else
    resize_with_filter(image.pixels.data(), image.size, part, to, interpolation, image.copy,
                       target);
  image.replace(to);
}

// The size after the short side is resized to `short_side`, but the long one to no more than
// `longest`; 0: no limit.
ImageSize bounded_size(ImageSize whole, int short_side, int longest) {
  const std::int64_t length = std::int64_t{short_side} * std::max(whole.height, whole.width) /
                              std::min(whole.height, whole.width);
  if (longest == 0 || length <= longest) return resized_size(whole, short_side);
  const auto side = static_cast<int>(std::int64_t{longest} * short_side / length);
  if (side == 0) throw ImageFault("too elongated to resize: " + text_of(whole));
  return whole.height <= whole.width ? ImageSize{side, longest} : ImageSize{longest, side};
}

}  // namespace

ImageTransform make_resize(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  const Interpolation interpolation =
      arguments.interpolation("interpolation", Interpolation::kBilinear);
  const int longest = arguments.whole("max_size", 1, kMaxSide, 0);
  const bool keeps_ratio = arguments.is_one("size");
  if (longest > 0 && !keeps_ratio)
    arguments.refuse("max_size", "null, since the size has two sides");
  else if (longest > 0 && longest <= size.height)
    arguments.refuse("max_size", "more than the size");
  arguments.truth("antialias", true);  // only checked: 8-bit pixels are always antialiased
  const auto resized = [=](ImageSize whole) {
    return keeps_ratio ? bounded_size(whole, size.height, longest) : size;
  };
  const auto size_after = [=](std::optional<ImageSize> whole) -> std::optional<ImageSize> {
    if (!keeps_ratio) return size;
    return whole ? std::optional(resized(*whole)) : std::nullopt;
  };
  return {.apply =
              [=](WorkImage& image, RandomSequence&) {
                resize(image, {0, 0, image.size}, resized(image.size), interpolation);
              },
          .size_after = size_after};
}

ImageTransform make_random_resized_crop(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  RectangleRange range;
  range.area = arguments.range("scale", {0, 1}, range.area);
  range.ratio = arguments.range("ratio", {1e-6, 1e6}, range.ratio);
  const Interpolation interpolation =
      arguments.interpolation("interpolation", Interpolation::kBilinear);
  arguments.truth("antialias", true);
  return {.apply =
              [=](WorkImage& image, RandomSequence& random) {
                resize(image, draw_crop(image.size, random, range), size, interpolation);
              },
          .is_random = true,
          .size_after = [size](std::optional<ImageSize>) { return size; }};
}

}  // namespace kiln
