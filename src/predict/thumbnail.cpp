#include "predict/thumbnail.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/image_bytes.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "predict/explanations.h"

namespace kiln {
namespace {

constexpr int kLongestSide = 96;
constexpr int kQuality = 80;

// The factor that scales an image of this size to a thumbnail.
double scale_for_people(ImageSize size) {
  return std::min(1.0, static_cast<double>(kLongestSide) / std::max(size.height, size.width));
}

// Scales down an image produced by a chain of operations.
Image reduced(const Image& image) {
  const double scale = scale_for_people(image.size);
  const auto axis = [scale](int length) {
    const int shorter = std::max(1, static_cast<int>(length * scale));
    return ResampleAxis{.begin = 0,
                        .length = static_cast<double>(length),
                        .resized = shorter,
                        .first = 0,
                        .count = shorter};
  };
  const ResampleAxis rows = axis(image.size.height), columns = axis(image.size.width);
  Image small{.size = {rows.count, columns.count}, .pixels = {}};
  small.pixels.resize(static_cast<std::size_t>(rows.count) *
                      static_cast<std::size_t>(columns.count) * 3);
  Resampler().write({image.pixels.data(), {0, 0, image.size}}, rows, columns, /*mirror=*/false,
                    small.pixels.data());
  return small;
}

TransformSpec plan_for_people(const TransformSpec& plan) {
  const ImageSize size = plan.output;
  const double scale = scale_for_people(size);
  const auto scaled = [scale](int length) {
    return length == 0 ? 0 : std::max(1, static_cast<int>(length * scale));
  };
  TransformSpec small = plan;
  small.augment = Augment::kNone;
  if (scale == 1.0) return small;
  small.output = {scaled(size.height), scaled(size.width)};
  if (plan.short_side > 0)
    small.short_side = std::max({scaled(plan.short_side), small.output.height, small.output.width});
  small.keep_exact = false;
  return small;
}

}  // namespace

Thumbnail thumbnail_of(const Dataset& set, std::size_t i, const TransformSpec& plan,
                       const at::Tensor& map) {
  const TransformSpec small = plan.chain ? plan : plan_for_people(plan);
  Image image{small.output, std::vector<std::uint8_t>(image_bytes(small))};
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    ImagePipeline().write(bytes, small, {}, image.pixels.data());
  } catch (const ImageFault&) {
    return {};
  }
  if (plan.chain) image = reduced(image);
  if (map.defined()) image = with_heat_map(image, map);
  return {image.size.height, image.size.width, encode_jpeg(image, kQuality)};
}

}  // namespace kiln
