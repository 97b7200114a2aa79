// Operations that resize the image or move its pixels: Resize, RandomResizedCrop, crops, padding,
// flips.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

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

// Crops the image to `wanted`, which may reach beyond it. What lies outside of the image gets the
// color `outside`.
void cut(WorkImage& image, const Region& wanted, const Color& outside) {
  if (wanted == Region{0, 0, image.size}) return;
  const auto [top, left, size] = wanted;
  std::uint8_t* target = image.begin(size);
  const int first = std::clamp(-left, 0, size.width);
  const int last = std::clamp(image.size.width - left, first, size.width);
  const auto fill = [&](int begin, int end) {
    for (int x = begin; x < end; ++x, target += 3) std::copy_n(outside.data(), 3, target);
  };
  for (int y = top; y < top + size.height; ++y) {
    if (y < 0 || y >= image.size.height) {
      fill(0, size.width);
      continue;
    }
    fill(0, first);
    const std::size_t from = image.size.place_of(y, std::max(left, 0));
    const auto bytes = static_cast<std::size_t>(last - first) * 3;
    if (bytes > 0) std::memcpy(target, image.pixels.data() + from, bytes);
    target += bytes;
    fill(last, size.width);
  }
  image.replace(size);
}

enum class PadMode { kConstant, kEdge, kReflect, kSymmetric };

// Returns which pixel of a row of `length` is repeated at position `i`, which may be before its
// start or after its end.
int mirrored(int i, int length, PadMode mode) {
  if (mode == PadMode::kEdge) return std::clamp(i, 0, length - 1);
  const bool repeats_edge = mode == PadMode::kSymmetric;
  const int period = std::max(1, repeats_edge ? 2 * length : 2 * length - 2);
  const int place = ((i % period) + period) % period;
  return place < length ? place : (repeats_edge ? period - 1 : period) - place;
}

struct Border {
  int left = 0, top = 0, right = 0, bottom = 0;  // negative: so much is cut off
  PadMode mode = PadMode::kConstant;
  Color color{};

  ImageSize around(ImageSize size) const {
    return {size.height + top + bottom, size.width + left + right};
  }

  // Throws ImageFault if the result would be too large or empty.
  void apply(WorkImage& image) const {
    check_size(around(image.size));
    if (mode == PadMode::kConstant) return cut(image, {-top, -left, around(image.size)}, color);
    const Region inner{std::max(0, -top),
                       std::max(0, -left),
                       {image.size.height + std::min(0, top) + std::min(0, bottom),
                        image.size.width + std::min(0, left) + std::min(0, right)}};
    check_size(inner.size);  // at least one pixel must be left to repeat
    cut(image, inner, color);
    const ImageSize from = image.size;
    const ImageSize to{from.height + std::max(0, top) + std::max(0, bottom),
                       from.width + std::max(0, left) + std::max(0, right)};
    std::uint8_t* target = image.begin(to);
    for (int y = 0; y < to.height; ++y) {
      const int row = mirrored(y - std::max(0, top), from.height, mode);
      for (int x = 0; x < to.width; ++x, target += 3) {
        const int column = mirrored(x - std::max(0, left), from.width, mode);
        std::memcpy(target, image.pixels.data() + from.place_of(row, column), 3);
      }
    }
    image.replace(to);
  }
};

// Reads one number for all sides; two, for left and right and for top and bottom; or four, for
// left, top, right and bottom.
Border border_of(Arguments& arguments) {
  constexpr NumberRange kPixels{-kMaxSide, kMaxSide};
  const std::vector<double> given = arguments.numbers("padding", kPixels, {1, 2, 4});
  const auto side = [&](std::size_t i) {
    return given.empty() ? 0 : static_cast<int>(given[i % given.size()]);
  };
  Border border{.left = side(0), .top = side(1), .right = side(2), .bottom = side(3)};
  const auto is_fraction = [](double pixels) { return pixels != std::trunc(pixels); };
  if (std::ranges::any_of(given, is_fraction)) arguments.refuse("padding", "whole pixels");
  border.color = arguments.color("fill");
  const std::vector<std::string> modes = {"constant", "edge", "reflect", "symmetric"};
  const std::string mode = arguments.word("padding_mode", modes);
  if (!mode.empty())
    border.mode = static_cast<PadMode>(std::ranges::find(modes, mode) - modes.begin());
  return border;
}

void check_fits(ImageSize whole, ImageSize crop) {
  if (whole.height < crop.height || whole.width < crop.width)
    throw ImageFault("it is " + text_of(whole) + " pixels, but the crop needs " + text_of(crop));
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

ImageTransform make_pad(Arguments& arguments) {
  arguments.require("padding");
  const Border border = border_of(arguments);
  const auto size_after = [border](std::optional<ImageSize> whole) -> std::optional<ImageSize> {
    if (!whole) return {};
    check_size(border.around(*whole));
    return border.around(*whole);
  };
  return {.apply = [border](WorkImage& image, RandomSequence&) { border.apply(image); },
          .size_after = size_after};
}

// Pads a smaller image with black.
ImageTransform make_center_crop(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  const auto apply = [size](WorkImage& image, RandomSequence&) {
    const auto offset = [](int length, int cropped) {
      return cropped > length ? -((cropped - length) / 2) : center_offset(length - cropped);
    };
    cut(image, {offset(image.size.height, size.height), offset(image.size.width, size.width), size},
        {});
  };
  return {.apply = apply, .size_after = [size](std::optional<ImageSize>) { return size; }};
}

ImageTransform make_random_crop(Arguments& arguments) {
  const ImageSize size = arguments.size("size");
  const bool pads_if_needed = arguments.truth("pad_if_needed", false);
  const Border border = border_of(arguments);
  const auto apply = [=](WorkImage& image, RandomSequence& random) {
    border.apply(image);
    // The whole missing size is added on both sides, so that the image may lie anywhere in the
    // crop.
    Border more{.mode = border.mode, .color = border.color};
    if (pads_if_needed) {
      more.left = more.right = std::max(0, size.width - image.size.width);
      more.top = more.bottom = std::max(0, size.height - image.size.height);
    }
    more.apply(image);
    check_fits(image.size, size);
    const auto below = [&](int n) { return static_cast<int>(random.below(n)); };
    const int top = below(image.size.height - size.height + 1);
    const int left = below(image.size.width - size.width + 1);
    cut(image, {top, left, size}, {});
  };
  const auto size_after = [=](std::optional<ImageSize> whole) {
    if (whole && !pads_if_needed) check_fits(border.around(*whole), size);
    return size;
  };
  return {.apply = apply, .is_random = true, .size_after = size_after};
}

template <void (*kFlip)(std::uint8_t* pixels, ImageSize size)>
ImageTransform make_random_flip(Arguments& arguments) {
  const double probability = arguments.number("p", {0, 1}, 0.5);
  return {.apply =
              [probability](WorkImage& image, RandomSequence& random) {
                if (random.uniform() < probability) kFlip(image.pixels.data(), image.size);
              },
          .is_random = true};
}

template ImageTransform make_random_flip<flip_horizontally>(Arguments& arguments);
template ImageTransform make_random_flip<flip_vertically>(Arguments& arguments);

}  // namespace kiln
