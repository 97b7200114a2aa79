// Operations on colors: ColorJitter, Grayscale, RandomGrayscale.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/transform/augment.h"
#include "data/transform/image_transform.h"

namespace kiln {
namespace {

// ITU-R 601 luma, rounded as in Pillow's convert("L").
void make_gray(WorkImage& image) {
  std::uint8_t* rgb = image.pixels.data();
  for (std::size_t i = 0; i < image.size.num_pixels(); ++i, rgb += 3)
    rgb[0] = rgb[1] = rgb[2] =
        static_cast<std::uint8_t>((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 0x8000) >> 16);
}

// Hue, saturation and value with 8 bits each. Hue and saturation are rounded down, as in Pillow.
struct Hsv {
  int hue = 0, saturation = 0, value = 0;
};

Hsv hsv_of(const std::uint8_t* rgb) {
  const int most = std::max({rgb[0], rgb[1], rgb[2]});
  const int least = std::min({rgb[0], rgb[1], rgb[2]});
  if (most == least) return {0, 0, most};
  const auto chroma = static_cast<float>(most - least);
  const auto lack = [&](int channel) { return static_cast<float>(most - rgb[channel]) / chroma; };
  float sector = 0;
  if (rgb[0] == most)
    sector = lack(2) - lack(1);
  else if (rgb[1] == most)
    sector = 2 + lack(0) - lack(2);
  else
    sector = 4 + lack(1) - lack(0);
  const double turns = std::fmod(sector / 6.0 + 1, 1.0);
  return {static_cast<int>(turns * 255),
          static_cast<int>(chroma / static_cast<float>(most) * 255.0), most};
}

void write_rgb(const Hsv& color, std::uint8_t* rgb) {
  const float sectors = static_cast<float>(color.hue) * 6.0F / 255.0F;
  const auto sector = static_cast<int>(sectors);
  const float part = sectors - static_cast<float>(sector);
  const float saturation = static_cast<float>(color.saturation) / 255.0F;
  const auto shade = [&](float missing) {
    const float value = static_cast<float>(color.value) * (1 - saturation * missing);
    return static_cast<std::uint8_t>(std::clamp(std::round(value), 0.0F, 255.0F));
  };
  const auto most = static_cast<std::uint8_t>(color.value);
  const std::uint8_t least = shade(1), falling = shade(part), rising = shade(1 - part);
  const std::array<std::array<std::uint8_t, 3>, 6> sides = {{{most, rising, least},
                                                             {falling, most, least},
                                                             {least, most, rising},
                                                             {least, falling, most},
                                                             {rising, least, most},
                                                             {most, least, falling}}};
  std::copy_n(sides[sector % 6].data(), 3, rgb);
}

// Shifts the hue by `turns` of the color circle, from -0.5 to 0.5.
void turn_hue(WorkImage& image, double turns) {
  const int steps = static_cast<int>(turns * 255);
  std::uint8_t* rgb = image.pixels.data();
  for (std::size_t i = 0; i < image.size.num_pixels(); ++i, rgb += 3) {
    Hsv color = hsv_of(rgb);
    color.hue = (color.hue + steps) & 0xff;
    write_rgb(color, rgb);
  }
}

// Returns the range to draw from; empty if it is `center` alone, which changes nothing. An argument
// that is one number is the largest distance from `center`.
std::optional<NumberRange> jitter_of(Arguments& arguments, std::string_view name, double center,
                                     NumberRange allowed) {
  NumberRange range{center, center};
  if (arguments.is_one(name)) {
    const double most = arguments.number(name, {0, allowed.high}, 0);
    range = {std::max(allowed.low, center - most), center + most};
  } else {
    range = arguments.range(name, allowed, range);
  }
  if (range.low == center && range.high == center) return {};
  return range;
}

}  // namespace

// Multiplies brightness, contrast and saturation by random factors and shifts the hue by a random
// angle, in random order.
ImageTransform make_color_jitter(Arguments& arguments) {
  constexpr std::array<std::string_view, 4> kNames{"brightness", "contrast", "saturation", "hue"};
  static constexpr std::array kOperations{ImageOperation::kBrightness, ImageOperation::kContrast,
                                          ImageOperation::kColor};
  constexpr NumberRange kFactor{0, 1000}, kTurns{-0.5, 0.5};
  std::array<std::optional<NumberRange>, 4> ranges;  // empty: not changed
  for (std::size_t i = 0; i < 4; ++i)
    ranges[i] = jitter_of(arguments, kNames[i], i == 3 ? 0 : 1, i == 3 ? kTurns : kFactor);
  const auto apply = [ranges](WorkImage& image, RandomSequence& random) {
    std::array<double, 4> drawn{};
    for (std::size_t i = 0; i < 4; ++i)
      if (ranges[i]) drawn[i] = draw_between(*ranges[i], random);
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    for (std::size_t i = 4; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const std::size_t i : order) {
      if (!ranges[i]) continue;
      if (i == 3)
        turn_hue(image, drawn[i]);
      else
        apply_operation({kOperations[i], drawn[i] - 1}, image.pixels.data(), image.size,
                        image.copy);
    }
  };
  const auto is_drawn = [](const auto& range) { return range && range->low < range->high; };
  return {.apply = apply, .is_random = std::ranges::any_of(ranges, is_drawn)};
}

ImageTransform make_grayscale(Arguments& arguments) {
  const int channels = arguments.whole("num_output_channels", 1, 3, 1);
  if (channels == 2)
    arguments.refuse("num_output_channels", "1 or 3");
  else
    arguments.num_channels = channels;
  return {.apply = [](WorkImage& image, RandomSequence&) { make_gray(image); }};
}

ImageTransform make_random_grayscale(Arguments& arguments) {
  const double probability = arguments.number("p", {0, 1}, 0.1);
  return {.apply =
              [probability](WorkImage& image, RandomSequence& random) {
                if (random.uniform() < probability) make_gray(image);
              },
          .is_random = true};
}

}  // namespace kiln
