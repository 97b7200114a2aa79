#include "data/image/filter_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace kiln {
namespace {

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double box(double x) {
  return x > -0.5 && x <= 0.5 ? 1 : 0;
}

double hamming(double x) {
  x = std::abs(x);
  return x < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(std::numbers::pi * x)) : 0;
}

// Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -1/2.
double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

double lanczos(double x) {
  return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

struct Kernel {
  double (*weight)(double);
  double radius;
};

Kernel kernel_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBox:
      return {box, 0.5};
    case ResizeFilter::kHamming:
      return {hamming, 1};
    case ResizeFilter::kBicubic:
      return {bicubic, 2};
    default:
      return {lanczos, 3};
  }
}

constexpr int kWeightBits = 22;

// One resized pixel as a weighted sum of the source pixels from `begin` on.
struct Taps {
  int begin = 0;
  std::vector<int> weights;  // in units of 1 / 2^kWeightBits
  std::vector<double> exact;

  // For pixel `i` when `length` pixels are resized to `resized`.
  void set(const Kernel& kernel, int length, int resized, int i) {
    const double scale = static_cast<double>(length) / resized, wide = std::max(scale, 1.0);
    const double middle = (i + 0.5) * scale, reach = kernel.radius * wide;
    begin = std::max(0, static_cast<int>(std::floor(middle - reach + 0.5)));
    const int end = std::min(length, static_cast<int>(std::floor(middle + reach + 0.5)));
    exact.clear();
    double sum = 0;
    for (int x = begin; x < end; ++x) {
      exact.push_back(kernel.weight((x - middle + 0.5) / wide));
      sum += exact.back();
    }
    weights.clear();
    for (const double weight : exact)
      weights.push_back(
          static_cast<int>(std::lround((sum == 0 ? weight : weight / sum) * (1 << kWeightBits))));
  }

  // Returns the weighted sum of samples that lie `stride` apart.
  std::uint8_t sum(const std::uint8_t* samples, std::size_t stride) const {
    std::int64_t sum = 1 << (kWeightBits - 1);
    for (const int weight : weights) {
      sum += static_cast<std::int64_t>(weight) * *samples;
      samples += stride;
    }
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kWeightBits, 0, 255));
  }
};

void take_nearest(const std::uint8_t* corner, std::size_t stride, ImageSize from, ImageSize to,
                  std::uint8_t* target) {
  const auto place = [](int i, int length, int resized) {
    return static_cast<std::size_t>((i + 0.5) * length / resized);
  };
  for (int y = 0; y < to.height; ++y) {
    const std::uint8_t* row = corner + place(y, from.height, to.height) * stride;
    for (int x = 0; x < to.width; ++x, target += 3)
      std::memcpy(target, row + place(x, from.width, to.width) * 3, 3);
  }
}

}  // namespace

void resize_with_filter(const std::uint8_t* pixels, ImageSize whole, const Region& region,
                        ImageSize resized, ResizeFilter filter, std::vector<std::uint8_t>& scratch,
                        std::uint8_t* target) {
  const auto size_of = [](int length) { return static_cast<std::size_t>(length); };
  const std::size_t stride = size_of(whole.width) * 3, row_bytes = size_of(resized.width) * 3;
  const std::uint8_t* corner = pixels + size_of(region.top) * stride + size_of(region.left) * 3;
  if (filter == ResizeFilter::kNearest)
    return take_nearest(corner, stride, region.size, resized, target);
  const Kernel kernel = kernel_of(filter);
  const std::size_t height = size_of(region.size.height);
  scratch.resize(height * row_bytes);  // after the first pass: [region.height, resized.width, 3]
  Taps taps;
  for (int x = 0; x < resized.width; ++x) {
    taps.set(kernel, region.size.width, resized.width, x);
    const std::uint8_t* from = corner + size_of(taps.begin) * 3;
    std::uint8_t* to = scratch.data() + size_of(x) * 3;
    for (std::size_t y = 0; y < height; ++y, from += stride, to += row_bytes)
      for (std::size_t c = 0; c < 3; ++c) to[c] = taps.sum(from + c, 3);
  }
  for (int y = 0; y < resized.height; ++y, target += row_bytes) {
    taps.set(kernel, region.size.height, resized.height, y);
    const std::uint8_t* from = scratch.data() + size_of(taps.begin) * row_bytes;
    for (std::size_t i = 0; i < row_bytes; ++i) target[i] = taps.sum(from + i, row_bytes);
  }
}

}  // namespace kiln
