#include "data/augment.h"

#include <algorithm>
#include <cmath>

namespace kiln {
namespace {

constexpr int kAttempts = 10;

double uniform(RandomSequence& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

int below(RandomSequence& random, int n) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
}

}  // namespace

Region draw_crop(ImageSize whole, RandomSequence& random) {
  constexpr double kLeastRatio = 3.0 / 4.0, kMostRatio = 4.0 / 3.0;
  const double area = static_cast<double>(whole.height) * whole.width;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * uniform(random, 0.08, 1.0);
    const double ratio = std::exp(uniform(random, std::log(kLeastRatio), std::log(kMostRatio)));
    const auto width = static_cast<int>(std::lround(std::sqrt(part * ratio)));
    const auto height = static_cast<int>(std::lround(std::sqrt(part / ratio)));
    if (width < 1 || height < 1 || width > whole.width || height > whole.height) continue;
    const int top = below(random, whole.height - height + 1);
    const int left = below(random, whole.width - width + 1);
    return {top, left, {height, width}};
  }
  ImageSize size = whole;
  const double ratio = static_cast<double>(whole.width) / whole.height;
  if (ratio < kLeastRatio) size.height = static_cast<int>(std::lround(whole.width / kLeastRatio));
  if (ratio > kMostRatio) size.width = static_cast<int>(std::lround(whole.height * kMostRatio));
  return {(whole.height - size.height) / 2, (whole.width - size.width) / 2, size};
}

void random_erase(std::uint8_t* pixels, ImageSize size, const std::uint8_t* color,
                  RandomSequence& random) {
  if (random.uniform() >= 0.25) return;
  const double area = static_cast<double>(size.height) * size.width;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * uniform(random, 0.02, 0.33);
    const double ratio = std::exp(uniform(random, std::log(0.3), std::log(3.3)));
    const auto height = static_cast<int>(std::lround(std::sqrt(part * ratio)));
    const auto width = static_cast<int>(std::lround(std::sqrt(part / ratio)));
    if (height < 1 || width < 1 || height >= size.height || width >= size.width) continue;
    const int top = below(random, size.height - height + 1);
    const int left = below(random, size.width - width + 1);
    for (int y = top; y < top + height; ++y)
      for (int x = left; x < left + width; ++x)
        std::copy_n(color, 3,
                    pixels + (static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width) +
                              static_cast<std::size_t>(x)) *
                                 3);
    return;
  }
}

}  // namespace kiln
