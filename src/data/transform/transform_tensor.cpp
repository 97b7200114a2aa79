// Operations on tensors: ToTensor, ToPILImage and those that may lie between them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/transform/augment.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

using Channels = std::array<float, 3>;

Channels channels_of(const std::array<double, 3>& values) {
  return {static_cast<float>(values[0]), static_cast<float>(values[1]),
          static_cast<float>(values[2])};
}

// Returns normally distributed values (Box and Muller, 1958).
Channels noise(RandomSequence& random, int num_channels) {
  Channels values{};
  for (float& sample : values) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    sample = static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.uniform()));
  }
  if (num_channels == 1) values[1] = values[2] = values[0];
  return values;
}

constexpr NumberRange kAny{-1e6, 1e6};

}  // namespace

ImageTransform make_to_tensor(Arguments&) {
  return {.apply = [](WorkImage& image, RandomSequence&) {
    image.samples.resize(image.pixels.size());
    std::ranges::transform(image.pixels, image.samples.begin(),
                           [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
  }};
}

// Takes the integer part modulo 256, as NumPy does on the processors on which the original runs:
// values that Normalize has moved outside of 0 to 1 are not clamped.
ImageTransform make_to_pil_image(Arguments& arguments) {
  arguments.word("mode", {arguments.num_channels == 1 ? "L" : "RGB"});
  const auto byte_of = [](float sample) {
    const float value = sample * 255.0F;
    return std::abs(value) < 2147483648.0F
               ? static_cast<std::uint8_t>(static_cast<std::int32_t>(value))
               : std::uint8_t{0};
  };
  return {.apply = [byte_of](WorkImage& image, RandomSequence&) {
    std::ranges::transform(image.samples, image.pixels.begin(), byte_of);
  }};
}

ImageTransform make_normalize(Arguments& arguments) {
  arguments.require("mean");
  arguments.require("std");
  const std::array<double, 3> means = arguments.for_channels("mean", kAny, 0);
  const std::array<double, 3> stds = arguments.for_channels("std", kAny, 1);
  if (std::ranges::count(stds, 0) > 0) arguments.refuse("std", "numbers other than 0");
  arguments.truth("inplace", false);
  return {.apply = [mean = channels_of(means), std = channels_of(stds)](WorkImage& image,
                                                                        RandomSequence&) {
    for (std::size_t i = 0; i < image.samples.size(); ++i)
      image.samples[i] = (image.samples[i] - mean[i % 3]) / std[i % 3];
  }};
}

ImageTransform make_random_erasing(Arguments& arguments) {
  const double probability = arguments.number("p", {0, 1}, 0.5);
  const RectangleRange range{arguments.range("scale", {0, 1}, kErased.area),
                             arguments.range("ratio", {1e-6, 1e6}, kErased.ratio)};
  const int num_channels = arguments.num_channels;
  std::optional<Channels> value;  // empty: noise
  if (!arguments.is_text("value"))
    value = channels_of(arguments.for_channels("value", kAny, 0));
  else
    arguments.word("value", {"random"});
  arguments.truth("inplace", false);
  const auto apply = [=](WorkImage& image, RandomSequence& random) {
    if (random.uniform() >= probability) return;
    const std::optional<Region> erased = draw_erased(image.size, random, range);
    if (!erased) return;
    const auto& [top, left, size] = *erased;
    for (int y = top; y < top + size.height; ++y) {
      float* out = image.samples.data() + image.size.place_of(y, left);
      for (int x = 0; x < size.width; ++x, out += 3)
        std::ranges::copy(value ? *value : noise(random, num_channels), out);
    }
  };
  return {.apply = apply, .is_random = true};
}

}  // namespace kiln
