#include "data/transform/crop.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace kiln {
namespace {

ResampleAxis axis_of(int begin, int length, int resized, int first, int count) {
  return {static_cast<double>(begin), static_cast<double>(length), resized, first, count};
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

ImageSize resized_size(ImageSize from, std::int64_t short_side) {
  const std::int64_t long_side =
      short_side * std::max(from.height, from.width) / std::min(from.height, from.width);
  if (short_side * long_side > kMaxImagePixels)
    throw ImageFault("too elongated to resize: " + text_of(from));
  const auto a = static_cast<int>(short_side), b = static_cast<int>(long_side);
  return from.height <= from.width ? ImageSize{a, b} : ImageSize{b, a};
}

Placing place_center(ImageSize whole, const TransformSpec& plan) {
  const ImageSize out = plan.output;
  ImageSize resized = whole;
  if (whole != out || !plan.keep_exact) {
    if (plan.short_side == 0)
      throw ImageFault("its size is " + text_of(whole) + ", not " + text_of(out));
    resized = resized_size(whole, plan.short_side);
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
