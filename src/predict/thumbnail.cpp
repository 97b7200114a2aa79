#include "predict/thumbnail.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "predict/explanations.h"

namespace kiln {
namespace {

constexpr int kLongestSide = 96;
constexpr int kQuality = 80;

TransformSpec plan_for_people(const TransformSpec& plan) {
  const ImageSize size = plan.output;
  const double scale =
      std::min(1.0, static_cast<double>(kLongestSide) / std::max(size.height, size.width));
  const auto scaled = [scale](int length) {
    return length == 0 ? 0 : std::max(1, static_cast<int>(length * scale));
  };
  TransformSpec small = plan;
  small.augment = Augment::kNone;
  if (scale == 1.0) return small;
  small.output = {scaled(size.height), scaled(size.width)};
  small.short_side = std::max({scaled(plan.short_side), small.output.height, small.output.width});
  small.keep_exact = false;
  return small;
}

}  // namespace

Thumbnail thumbnail_of(const Dataset& set, std::size_t i, const TransformSpec& plan,
                       const at::Tensor& map) {
  const TransformSpec small = plan_for_people(plan);
  Image image{small.output, std::vector<std::uint8_t>(image_bytes(small))};
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    ImagePipeline().write(bytes, small, {}, image.pixels.data());
  } catch (const ImageFault&) {
    return {};
  }
  if (map.defined()) image = with_heat_map(image, map);
  return {image.size.height, image.size.width, encode_jpeg(image, kQuality)};
}

}  // namespace kiln
