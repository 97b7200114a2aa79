#include "data/transform/crop.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace kiln {
namespace {

ResampleAxis axis_of(int begin, int length, int resized, int first, int count) {
  return {static_cast<double>(begin), static_cast<double>(length), resized, first, count};
}

int other_side(std::int64_t side, int from, int other, ImageSize whole) {
  const std::int64_t resized = side * other / from;
  if (side * resized > kMaxImagePixels)
    throw ImageFault("too elongated to resize: " + text_of(whole));
  return static_cast<int>(resized);
}

// The other side follows, rounded down.
ImageSize with_height(ImageSize from, int side) {
  return {side, other_side(side, from.height, from.width, from)};
}

ImageSize with_width(ImageSize from, int side) {
  return {other_side(side, from.width, from.height, from), side};
}

void copy_row(const std::uint8_t* from, int width, bool mirror, std::uint8_t* to) {
  const auto bytes = static_cast<std::size_t>(width) * 3;
  if (!mirror) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += 3) std::memcpy(to + at, from + bytes - 3 - at, 3);
}

}  // namespace

std::string text_of(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

int center_offset(int excess) {
  const int half = excess / 2;
  return excess % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

ImageSize resized_size(ImageSize from, int short_side) {
  return from.height <= from.width ? with_height(from, short_side) : with_width(from, short_side);
}

ImageSize covering_size(ImageSize from, ImageSize out) {
  const bool is_tall =
      std::int64_t{from.height} * out.width >= std::int64_t{from.width} * out.height;
  return is_tall ? with_width(from, out.width) : with_height(from, out.height);
}

Placing place_center(ImageSize whole, const TransformSpec& plan) {
  const ImageSize out = plan.output;
  ImageSize resized = whole;
  if (whole != out || !plan.keep_exact) {
    resized =
        plan.short_side > 0 ? resized_size(whole, plan.short_side) : covering_size(whole, out);
    if (resized.height < out.height || resized.width < out.width)
      throw ImageFault("resized to " + text_of(resized) + " it is smaller than " + text_of(out));
  }
  return {
      axis_of(0, whole.height, resized.height, center_offset(resized.height - out.height),
              out.height),
      axis_of(0, whole.width, resized.width, center_offset(resized.width - out.width), out.width)};
}

Placing place_crop(const Region& crop, ImageSize out) {
  return {axis_of(crop.top, crop.size.height, out.height, 0, out.height),
          axis_of(crop.left, crop.size.width, out.width, 0, out.width)};
}

double shrinks_by(const Placing& placing, Augment augment) {
  if (!takes_random_parts(augment)) return 1;
  const auto& [rows, columns] = placing;
  return std::min(rows.length / rows.resized, columns.length / columns.resized);
}

bool is_copy(const Placing& placing) {
  return placing.rows.length == placing.rows.resized &&
         placing.columns.length == placing.columns.resized;
}

Region unchanged_region(const Placing& placing) {
  const auto& [rows, columns] = placing;
  return {static_cast<int>(rows.begin) + rows.first,
          static_cast<int>(columns.begin) + columns.first,
          {rows.count, columns.count}};
}

void copy_region(const PixelView& view, const Region& wanted, bool mirror, std::uint8_t* target) {
  const auto stride = static_cast<std::size_t>(view.region.size.width) * 3;
  const std::uint8_t* from = view.pixels +
                             static_cast<std::size_t>(wanted.top - view.region.top) * stride +
                             static_cast<std::size_t>(wanted.left - view.region.left) * 3;
  for (int y = 0; y < wanted.size.height; ++y, from += stride) {
    copy_row(from, wanted.size.width, mirror, target);
    target += static_cast<std::size_t>(wanted.size.width) * 3;
  }
}

}  // namespace kiln
