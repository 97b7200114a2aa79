// Operations on tensors: ToTensor, ToPILImage and those that may lie between them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/transform/augment.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

class ToTensor : public ImageTransform {
 public:
  void apply(WorkImage& image, RandomSequence&) const override {
    image.samples.resize(image.pixels.size());
    std::transform(image.pixels.begin(), image.pixels.end(), image.samples.begin(),
                   [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
  }
};

// Takes the integer part modulo 256, as NumPy does on the processors on which the original runs:
// values that Normalize has moved outside of 0 to 1 are not clamped.
class ToPilImage : public ImageTransform {
 public:
  void apply(WorkImage& image, RandomSequence&) const override {
    const auto byte_of = [](float sample) {
      const float value = sample * 255.0F;
      return std::abs(value) < 2147483648.0F
                 ? static_cast<std::uint8_t>(static_cast<std::int32_t>(value))
                 : std::uint8_t{0};
    };
    std::transform(image.samples.begin(), image.samples.end(), image.pixels.begin(), byte_of);
  }
};

using Channels = std::array<float, 3>;

Channels channels_of(const std::vector<double>& values) {
  Channels channels{};
  for (std::size_t c = 0; c < 3 && !values.empty(); ++c)
    channels[c] = static_cast<float>(values[values.size() == 3 ? c : 0]);
  return channels;
}

class Normalize : public ImageTransform {
 public:
  Normalize(const Channels& mean, const Channels& std) : mean_(mean), std_(std) {}
  void apply(WorkImage& image, RandomSequence&) const override {
    for (std::size_t i = 0; i < image.samples.size(); ++i)
      image.samples[i] = (image.samples[i] - mean_[i % 3]) / std_[i % 3];
  }

 private:
  Channels mean_, std_;
};

class RandomErasing : public ImageTransform {
 public:
  double probability = 0.5;
  RectangleRange range{0.02, 0.33, 0.3, 3.3};
  std::optional<Channels> value;  // empty: noise
  int num_channels = 3;

  void apply(WorkImage& image, RandomSequence& random) const override {
    if (random.uniform() >= probability) return;
    const std::optional<Region> erased = draw_erased(image.size, random, range);
    if (!erased) return;
    const auto& [top, left, size] = *erased;
    for (int y = top; y < top + size.height; ++y) {
      const std::size_t start =
          static_cast<std::size_t>(y) * static_cast<std::size_t>(image.size.width) +
          static_cast<std::size_t>(left);
      float* out = image.samples.data() + start * 3;
      for (int x = 0; x < size.width; ++x, out += 3) {
        const Channels filled = value ? *value : noise(random);
        std::copy_n(filled.data(), 3, out);
      }
    }
  }
  bool is_random() const override { return true; }

 private:
  // Returns normally distributed values (Box and Muller, 1958).
  Channels noise(RandomSequence& random) const {
    Channels values{};
    for (float& sample : values) {
      const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
      sample = static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.uniform()));
    }
    if (num_channels == 1) values[1] = values[2] = values[0];
    return values;
  }
};

constexpr Range kAny{-1e6, 1e6};

// Reads one number for all channels, or one for each.
std::vector<double> for_channels(Arguments& arguments, std::string_view name) {
  return arguments.num_channels() == 1 ? arguments.numbers(name, kAny, {1})
                                       : arguments.numbers(name, kAny, {1, 3});
}

}  // namespace

MadeTransform make_to_tensor(Arguments&) {
  return std::make_unique<ToTensor>();
}

MadeTransform make_to_pil_image(Arguments& arguments) {
  arguments.word("mode", {arguments.num_channels() == 1 ? "L" : "RGB"});
  return std::make_unique<ToPilImage>();
}

MadeTransform make_normalize(Arguments& arguments) {
  arguments.require("mean");
  arguments.require("std");
  const std::vector<double> mean = for_channels(arguments, "mean");
  const std::vector<double> std = for_channels(arguments, "std");
  if (std::any_of(std.begin(), std.end(), [](double value) { return value == 0; }))
    arguments.refuse("std", "numbers other than 0");
  arguments.truth("inplace", false);
  return std::make_unique<Normalize>(channels_of(mean), channels_of(std));
}

MadeTransform make_random_erasing(Arguments& arguments) {
  auto made = std::make_unique<RandomErasing>();
  made->probability = arguments.probability("p", 0.5);
  const Range area = arguments.range("scale", {0, 1}, {0.02, 0.33});
  const Range ratio = arguments.range("ratio", {1e-6, 1e6}, {0.3, 3.3});
  made->range = {area.low, area.high, ratio.low, ratio.high};
  made->num_channels = arguments.num_channels();
  if (!arguments.is_text("value"))
    made->value = channels_of(for_channels(arguments, "value"));
  else
    arguments.word("value", {"random"});
  arguments.truth("inplace", false);
  return made;
}

}  // namespace kiln
