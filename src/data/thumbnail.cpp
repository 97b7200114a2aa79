#include "data/thumbnail.h"

#include <algorithm>

#include "data/decode.h"
#include "data/encode.h"
#include "data/image_bytes.h"
#include "data/pixels.h"

namespace kiln {
namespace {

constexpr int kLongestSide = 96;
constexpr int kQuality = 80;

PixelPlan plan_for_people(const PixelPlan& plan) {
  const ImageSize size = plan.output;
  const double scale =
      std::min(1.0, static_cast<double>(kLongestSide) / std::max(size.height, size.width));
  const auto scaled = [scale](int length) {
    return length == 0 ? 0 : std::max(1, static_cast<int>(length * scale));
  };
  PixelPlan small = plan;
  small.augment = Augment::kNone;
  if (scale == 1.0) return small;
  small.output = {scaled(size.height), scaled(size.width)};
  small.short_side = std::max({scaled(plan.short_side), small.output.height, small.output.width});
  small.keep_exact = false;
  return small;
}

}  // namespace

Thumbnail thumbnail_of(const ImageSet& set, std::size_t i, const PixelPlan& plan) {
  const PixelPlan small = plan_for_people(plan);
  Image image{small.output, std::vector<std::uint8_t>(image_bytes(small))};
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    PixelPath().write(bytes, small, {}, image.pixels.data());
  } catch (const ImageFault&) {
    return {};
  }
  return {image.size.height, image.size.width, encode_jpeg(image, kQuality)};
}

}  // namespace kiln
