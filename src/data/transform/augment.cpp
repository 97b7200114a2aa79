#include "data/transform/augment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <utility>

namespace kiln {
namespace {

constexpr int kAttempts = 10;

int below(RandomSequence& random, int n) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
}

constexpr int kStrengths = 31;

struct Pixels {
  std::uint8_t* data;
  std::size_t height, width;
  std::size_t count() const { return height * width; }
};

// Maps a pixel (x', y') to its source, relative to the center: x = xx * x' + xy * y' + dx.
struct Affine {
  double xx = 1, xy = 0, dx = 0, yx = 0, yy = 1, dy = 0;
};

std::uint8_t clamped(double value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
}

// Returns the gray level, truncated like torchvision's.
double gray_of(const std::uint8_t* rgb) {
  return std::floor(0.2989 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]);
}

// Returns the motion of an operation. Shears are centered at the top left corner, which stays in
// place.
Affine motion_of(const DrawnOperation& drawn, const Pixels& image) {
  const double m = drawn.magnitude, x = static_cast<double>(image.width) / 2,
               y = static_cast<double>(image.height) / 2;
  if (drawn.operation == ImageOperation::kShearX) return {.xy = m, .dx = m * y};
  if (drawn.operation == ImageOperation::kShearY) return {.yx = m, .dy = m * x};
  if (drawn.operation == ImageOperation::kTranslateX) return {.dx = -std::trunc(m)};
  if (drawn.operation == ImageOperation::kTranslateY) return {.dy = -std::trunc(m)};
  const double angle = m * std::numbers::pi / 180;
  return {
      .xx = std::cos(angle), .xy = -std::sin(angle), .yx = std::sin(angle), .yy = std::cos(angle)};
}

void move(const Pixels& image, const Affine& from, const std::vector<std::uint8_t>& copy) {
  const double center_x = static_cast<double>(image.width) / 2 - 0.5;
  const double center_y = static_cast<double>(image.height) / 2 - 0.5;
  std::uint8_t* out = image.data;
  for (std::size_t row = 0; row < image.height; ++row) {
    const double y = static_cast<double>(row) - center_y;
    for (std::size_t column = 0; column < image.width; ++column, out += 3) {
      const double x = static_cast<double>(column) - center_x;
      const double in_x = std::nearbyint(from.xx * x + from.xy * y + from.dx + center_x);
      const double in_y = std::nearbyint(from.yx * x + from.yy * y + from.dy + center_y);
      if (in_x < 0 || in_y < 0 || in_x >= static_cast<double>(image.width) ||
          in_y >= static_cast<double>(image.height)) {
        std::memset(out, 0, 3);
      } else {
        const auto place =
            static_cast<std::size_t>(in_y) * image.width + static_cast<std::size_t>(in_x);
        std::memcpy(out, copy.data() + place * 3, 3);
      }
    }
  }
}

// Sets each value to factor * value + (1 - factor) * other(pixel). `other` returns one level for
// all channels.
template <typename Other>
void blend(const Pixels& image, double factor, Other&& other) {
  for (std::size_t i = 0; i < image.count(); ++i) {
    std::uint8_t* rgb = image.data + i * 3;
    const double addend = (1 - factor) * other(rgb);
    for (int c = 0; c < 3; ++c) rgb[c] = clamped(factor * rgb[c] + addend);
  }
}

double mean_gray(const Pixels& image) {
  double sum = 0;
  for (std::size_t i = 0; i < image.count(); ++i) sum += gray_of(image.data + i * 3);
  return sum / static_cast<double>(image.count());
}

// Blends with a 3 x 3 blur whose weights are 5/13 in the center and 1/13 around it: extrapolates if
// `factor` is above 1. The border is unchanged.
void sharpen(const Pixels& image, double factor, const std::vector<std::uint8_t>& copy) {
  const std::size_t stride = image.width * 3;
  for (std::size_t y = 1; y + 1 < image.height; ++y) {
    for (std::size_t i = y * stride + 3; i < (y + 1) * stride - 3; ++i) {
      int sum = 4 * copy[i];
      for (const std::size_t row : {i - stride, i, i + stride})
        sum += copy[row - 3] + copy[row] + copy[row + 3];
      image.data[i] = clamped(factor * copy[i] + (1 - factor) * std::nearbyint(sum / 13.0));
    }
  }
}

// A lookup table for the values of each channel.
using Tables = std::array<std::array<std::uint8_t, 256>, 3>;

void look_up(const Pixels& image, const Tables& tables) {
  for (std::size_t i = 0; i < image.count() * 3; i += 3)
    for (std::size_t c = 0; c < 3; ++c) image.data[i + c] = tables[c][image.data[i + c]];
}

template <typename Value>
Tables same_tables(Value&& value) {
  Tables tables{};
  for (std::size_t v = 0; v < 256; ++v) tables[0][v] = static_cast<std::uint8_t>(value(v));
  tables[1] = tables[2] = tables[0];
  return tables;
}

using Counts = std::array<std::array<std::size_t, 256>, 3>;

Counts counts_of(const Pixels& image) {
  Counts counts{};
  for (std::size_t i = 0; i < image.count() * 3; i += 3)
    for (std::size_t c = 0; c < 3; ++c) ++counts[c][image.data[i + c]];
  return counts;
}

// Tables that stretch each channel so that its darkest and lightest values become 0 and 255.
Tables contrast_tables(const Counts& counts) {
  Tables tables = same_tables([](int v) { return v; });
  for (std::size_t c = 0; c < 3; ++c) {
    const auto used = [](std::size_t n) { return n > 0; };
    const auto low = std::find_if(counts[c].begin(), counts[c].end(), used) - counts[c].begin();
    const auto high =
        255 - (std::find_if(counts[c].rbegin(), counts[c].rend(), used) - counts[c].rbegin());
    if (low == high) continue;
    const float scale = 255.0F / static_cast<float>(high - low);
    for (auto v = low; v <= high; ++v) tables[c][v] = clamped(static_cast<float>(v - low) * scale);
  }
  return tables;
}

// Tables that equalize the histogram of each channel.
Tables equal_tables(const Counts& counts) {
  Tables tables = same_tables([](int v) { return v; });
  for (std::size_t c = 0; c < 3; ++c) {
    std::size_t total = 0, last = 0;
    for (const std::size_t count : counts[c]) {
      total += count;
      if (count > 0) last = count;
    }
    const std::size_t step = (total - last) / 255;
    if (step == 0) continue;
    std::size_t below = 0;
    for (std::size_t v = 0; v < 256; below += counts[c][v++])
      tables[c][v] =
          static_cast<std::uint8_t>(std::min<std::size_t>(255, (below + step / 2) / step));
    tables[c][0] = 0;
  }
  return tables;
}

// A rectangle of at most `most` in an image, drawn as draw_crop() says; empty after ten draws that
// do not fit. `is_wide`: the ratio is width / height, otherwise height / width.
std::optional<Region> draw_rectangle(ImageSize whole, ImageSize most, bool is_wide,
                                     RandomSequence& random, const RectangleRange& range) {
  const double area = static_cast<double>(whole.height) * whole.width;
  const NumberRange logs{std::log(range.ratio.low), std::log(range.ratio.high)};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * draw_between(range.area, random);
    const double ratio = std::exp(draw_between(logs, random));
    long height = std::lround(std::sqrt(part * ratio)),
         width = std::lround(std::sqrt(part / ratio));
    if (is_wide) std::swap(height, width);
    if (height < 1 || width < 1 || height > most.height || width > most.width) continue;
    const ImageSize size{static_cast<int>(height), static_cast<int>(width)};
    const int top = below(random, whole.height - size.height + 1);
    const int left = below(random, whole.width - size.width + 1);
    return Region{top, left, size};
  }
  return {};
}

}  // namespace

Region draw_crop(ImageSize whole, RandomSequence& random, const RectangleRange& range) {
  const auto drawn = draw_rectangle(whole, whole, /*is_wide=*/true, random, range);
  if (drawn) return *drawn;
  ImageSize size = whole;
  const double ratio = static_cast<double>(whole.width) / whole.height;
  if (ratio < range.ratio.low)
    size.height = static_cast<int>(std::max(1L, std::lround(whole.width / range.ratio.low)));
  if (ratio > range.ratio.high)
    size.width = static_cast<int>(std::max(1L, std::lround(whole.height * range.ratio.high)));
  return {(whole.height - size.height) / 2, (whole.width - size.width) / 2, size};
}

std::optional<Region> draw_erased(ImageSize whole, RandomSequence& random,
                                  const RectangleRange& range) {
  const ImageSize smaller{whole.height - 1, whole.width - 1};
  return draw_rectangle(whole, smaller, /*is_wide=*/false, random, range);
}

void random_erase(std::uint8_t* pixels, ImageSize size, const std::uint8_t* color,
                  RandomSequence& random) {
  if (random.uniform() >= 0.25) return;
  const std::optional<Region> erased = draw_erased(size, random, kErased);
  if (!erased) return;
  const auto& [top, left, part] = *erased;
  for (int y = top; y < top + part.height; ++y)
    for (int x = left; x < left + part.width; ++x)
      std::copy_n(color, 3, pixels + size.place_of(y, x));
}

void flip_horizontally(std::uint8_t* pixels, ImageSize size) {
  const auto width = static_cast<std::size_t>(size.width);
  for (int y = 0; y < size.height; ++y, pixels += width * 3)
    for (std::size_t left = 0; left < width / 2; ++left)
      std::swap_ranges(pixels + left * 3, pixels + left * 3 + 3, pixels + (width - 1 - left) * 3);
}

void flip_vertically(std::uint8_t* pixels, ImageSize size) {
  const auto height = static_cast<std::size_t>(size.height);
  const std::size_t stride = static_cast<std::size_t>(size.width) * 3;
  for (std::size_t top = 0; top < height / 2; ++top)
    std::swap_ranges(pixels + top * stride, pixels + (top + 1) * stride,
                     pixels + (height - 1 - top) * stride);
}

int draw_quarter_turns(ImageSize size, RandomSequence& random) {
  return size.height == size.width ? below(random, 4) : 2 * below(random, 2);
}

void turn(std::uint8_t* pixels, ImageSize size, int quarter_turns,
          std::vector<std::uint8_t>& copy) {
  if (quarter_turns == 0) return;
  if (quarter_turns == 2) {
    flip_horizontally(pixels, size);
    return flip_vertically(pixels, size);
  }
  // With one turn the right column becomes the top row; with three the left column does, from the
  // bottom up.
  const auto side = static_cast<std::size_t>(size.width);
  copy.assign(pixels, pixels + side * side * 3);
  for (std::size_t y = 0; y < side; ++y) {
    for (std::size_t x = 0; x < side; ++x, pixels += 3) {
      const std::size_t place =
          quarter_turns == 1 ? x * side + (side - 1 - y) : (side - 1 - x) * side + y;
      std::memcpy(pixels, copy.data() + place * 3, 3);
    }
  }
}

std::array<DrawnOperation, 3> draw_color_jitter(RandomSequence& random) {
  constexpr double kStrength = 0.4;
  std::array<DrawnOperation, 3> drawn = {{{ImageOperation::kBrightness, 0},
                                          {ImageOperation::kContrast, 0},
                                          {ImageOperation::kColor, 0}}};
  for (DrawnOperation& operation : drawn)
    operation.magnitude = draw_between({-kStrength, kStrength}, random);
  for (int i = 2; i > 0; --i) std::swap(drawn[i], drawn[below(random, i + 1)]);
  return drawn;
}

DrawnOperation draw_operation(RandomSequence& random) {
  const auto operation = static_cast<ImageOperation>(random.below(kNumImageOperations));
  const auto strength = static_cast<double>(random.below(kStrengths)) / (kStrengths - 1);
  const double sign = random.below(2) == 0 ? 1 : -1;
  if (operation == ImageOperation::kPosterize) return {operation, 8 - std::nearbyint(6 * strength)};
  if (operation == ImageOperation::kSolarize) return {operation, 255 * (1 - strength)};
  // By operation; 0: it has no magnitude.
  constexpr std::array<double, kNumImageOperations> kMost = {0,   0.99, 0.99, 32,   32,
                                                             135, 0.99, 0.99, 0.99, 0.99};
  return {operation, sign * kMost[static_cast<std::size_t>(operation)] * strength};
}

void apply_operation(const DrawnOperation& drawn, std::uint8_t* pixels, ImageSize size,
                     std::vector<std::uint8_t>& copy) {
  const Pixels image{pixels, static_cast<std::size_t>(size.height),
                     static_cast<std::size_t>(size.width)};
  const double factor = 1 + drawn.magnitude;
  switch (drawn.operation) {
    case ImageOperation::kShearX:
    case ImageOperation::kShearY:
    case ImageOperation::kTranslateX:
    case ImageOperation::kTranslateY:
    case ImageOperation::kRotate:
      copy.assign(pixels, pixels + image.count() * 3);
      return move(image, motion_of(drawn, image), copy);
    case ImageOperation::kSharpness:
      copy.assign(pixels, pixels + image.count() * 3);
      return sharpen(image, factor, copy);
    case ImageOperation::kBrightness:
      return blend(image, factor, [](const std::uint8_t*) { return 0.0; });
    case ImageOperation::kColor:
      return blend(image, factor, gray_of);
    case ImageOperation::kContrast:
      return blend(image, factor, [mean = mean_gray(image)](const std::uint8_t*) { return mean; });
    case ImageOperation::kPosterize: {
      const int kept = 0xff << (8 - static_cast<int>(drawn.magnitude)) & 0xff;
      return look_up(image, same_tables([&](int v) { return v & kept; }));
    }
    case ImageOperation::kSolarize:
      return look_up(image, same_tables([&](int v) { return v >= drawn.magnitude ? 255 - v : v; }));
    case ImageOperation::kAutoContrast:
      return look_up(image, contrast_tables(counts_of(image)));
    case ImageOperation::kEqualize:
      return look_up(image, equal_tables(counts_of(image)));
    case ImageOperation::kIdentity:
      return;
  }
}

}  // namespace kiln
