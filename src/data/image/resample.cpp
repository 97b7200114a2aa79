#include "data/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace kiln {
namespace {

struct Span {
  int begin = 0, end = 0;
};

// The center of the wanted pixel `i` in the source image.
double middle_of(const ResampleAxis& axis, int i) {
  return axis.begin + axis.length / axis.resized * (axis.first + i + 0.5);
}

double radius_of(const ResampleAxis& axis) {
  return std::max(axis.length / axis.resized, 1.0);
}

// In fixed point each product is rounded down, which write_row() compensates by half a unit per
// tap. With this many taps the compensation is a whole level, which would be wrong where nothing
// was lost, as in black.
constexpr double kManyTaps = 512;

double taps_of(const ResampleAxis& axis) {
  return 2 * radius_of(axis) + 1;
}

// Returns the pixels of the image that the filter of the wanted pixel `i` reaches.
Span reach(const ResampleAxis& axis, int i) {
  const double middle = middle_of(axis, i) + 0.5, radius = radius_of(axis);
  const double end = std::ceil(axis.begin + axis.length);
  return {static_cast<int>(std::max(middle - radius, axis.begin)),
          static_cast<int>(std::min(middle + radius, end))};
}

// Sets the weight of each pixel of the span in the wanted pixel `i`. The weights add up to 1.
void weigh(const ResampleAxis& axis, int i, Span span, std::vector<double>& weights) {
  const double radius = radius_of(axis), middle = middle_of(axis, i);
  weights.clear();
  double sum = 0;
  for (int x = span.begin; x < span.end; ++x) {
    weights.push_back(std::max(0.0, 1.0 - std::abs(x + 0.5 - middle) / radius));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
}

// Eight samples: one SSE2 or NEON register. They may be unaligned in memory.
using Samples = std::uint16_t __attribute__((vector_size(16)));
using Bytes = std::uint8_t __attribute__((vector_size(8)));

Samples load(const std::uint16_t* from) {
  Samples samples;
  std::memcpy(&samples, from, sizeof samples);
  return samples;
}

Samples load(const std::uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, Samples);
}

// Returns the high halves of the products. This is a single instruction, which GCC 12 recognizes in
// a loop unless it has unrolled the loop (-O3).
Samples scaled(Samples samples, Samples weights) {
  Samples product;
#pragma GCC unroll 1
  for (int i = 0; i < 8; ++i)
    product[i] = static_cast<std::uint16_t>((std::uint32_t{samples[i]} * weights[i]) >> 16);
  return product;
}

// out[i] = the sum of weights[k] * inputs[k][i] with 8 fractional bits, for kVectors * 8 samples
// from `at` on.
template <int kVectors>
void combine_block(const std::uint8_t* const* inputs, const std::uint16_t* weights, int taps,
                   std::size_t at, std::uint16_t* out) {
  Samples sums[kVectors] = {};
  for (int k = 0; k < taps; ++k) {
    const Samples weight = Samples{} + weights[k];
    for (int v = 0; v < kVectors; ++v) {
      const Samples in = load(inputs[k] + at + 8 * static_cast<std::size_t>(v));
      sums[v] += scaled(in << 8, weight);
    }
  }
  std::memcpy(out + at, sums, sizeof sums);
}

void combine_rows(const std::uint8_t* const* inputs, const std::uint16_t* weights, int taps,
                  std::size_t samples, std::uint16_t* out) {
  std::size_t at = 0;
  for (; at + 32 <= samples; at += 32) combine_block<4>(inputs, weights, taps, at, out);
  for (; at + 8 <= samples; at += 8) combine_block<1>(inputs, weights, taps, at, out);
  for (; at < samples; ++at) {
    unsigned sum = 0;
    for (int k = 0; k < taps; ++k) sum += (std::uint32_t{inputs[k][at]} << 8) * weights[k] >> 16;
    out[at] = static_cast<std::uint16_t>(sum);
  }
}

ResampleAxis axis_of(int begin, int length, int resized) {
  return {static_cast<double>(begin), static_cast<double>(length), resized, 0, resized};
}

// The size of an image of size `whole` with this height, or this width; the other side is rounded
// down.
ImageSize with_side(ImageSize whole, bool is_height, int side) {
  const int from = is_height ? whole.height : whole.width;
  const int other = is_height ? whole.width : whole.height;
  const std::int64_t resized = std::int64_t{side} * other / from;
  if (side * resized > kMaxImagePixels)
    throw ImageFault("too elongated to resize: " + text_of(whole));
  const auto rest = static_cast<int>(resized);
  return is_height ? ImageSize{side, rest} : ImageSize{rest, side};
}

}  // namespace

Placing place_crop(const Region& crop, ImageSize out) {
  return {axis_of(crop.top, crop.size.height, out.height),
          axis_of(crop.left, crop.size.width, out.width)};
}

int center_offset(int excess) {
  const int half = excess / 2;
  return excess % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

ImageSize resized_size(ImageSize from, int short_side) {
  return with_side(from, from.height <= from.width, short_side);
}

ImageSize covering_size(ImageSize from, ImageSize out) {
  const bool is_tall =
      std::int64_t{from.height} * out.width >= std::int64_t{from.width} * out.height;
  return with_side(from, !is_tall, is_tall ? out.width : out.height);
}

ImageSize inner_size(ImageSize from, ImageSize out) {
  const auto side = [](std::int64_t own, int other, int out_other, int most) {
    return static_cast<int>(std::clamp<std::int64_t>(own * out_other / other, 1, most));
  };
  return {side(from.height, from.width, out.width, out.height),
          side(from.width, from.height, out.height, out.width)};
}

Image resized(const Image& image, ImageSize to) {
  const Region whole{0, 0, image.size};
  const auto [rows, columns] = place_crop(whole, to);
  Image result{to, std::vector<std::uint8_t>(to.num_pixels() * 3)};
  Resampler().write({image.pixels.data(), whole}, rows, columns, /*mirror=*/false,
                    result.pixels.data());
  return result;
}

Image cut_out(const Image& image, const Region& part) {
  Image result{part.size, std::vector<std::uint8_t>(part.size.num_pixels() * 3)};
  copy_region({image.pixels.data(), {0, 0, image.size}}, part, /*mirror=*/false,
              result.pixels.data());
  return result;
}

void copy_region(const PixelView& view, const Region& wanted, bool mirror, std::uint8_t* target) {
  const std::size_t stride = static_cast<std::size_t>(view.region.size.width) * 3;
  const std::size_t bytes = static_cast<std::size_t>(wanted.size.width) * 3;
  const std::uint8_t* from =
      view.pixels +
      view.region.size.place_of(wanted.top - view.region.top, wanted.left - view.region.left);
  for (int y = 0; y < wanted.size.height; ++y, from += stride, target += bytes) {
    if (mirror)
      for (std::size_t at = 0; at < bytes; at += 3)
        std::memcpy(target + at, from + bytes - 3 - at, 3);
    else
      std::memcpy(target, from, bytes);
  }
}

Region needed_region(const ResampleAxis& rows, const ResampleAxis& columns) {
  const int top = reach(rows, 0).begin, bottom = reach(rows, rows.count - 1).end;
  const int left = reach(columns, 0).begin, right = reach(columns, columns.count - 1).end;
  return {top, left, {bottom - top, right - left}};
}

void Resampler::set_taps(const ResampleAxis& axis, Taps& taps) {
  taps.taps = 0;
  taps.starts.resize(axis.count);
  for (int i = 0; i < axis.count; ++i) {
    const Span span = reach(axis, i);
    taps.starts[i] = span.begin;
    taps.taps = std::max(taps.taps, span.end - span.begin);
  }
  const auto stride = static_cast<std::size_t>(taps.taps);
  taps.weights.assign(stride * static_cast<std::size_t>(axis.count), 0);
  for (int i = 0; i < axis.count; ++i) {
    weigh(axis, i, reach(axis, i), weights_);
    std::uint16_t* out = taps.weights.data() + static_cast<std::size_t>(i) * stride;
    for (const double weight : weights_)
      *out++ = static_cast<std::uint16_t>(std::min(65535.0, weight * 65536.0 + 0.5));
  }
}

// Eight samples hold two RGB pixels and two more samples, so the weights of two taps are stored as
// a a a b b b 0 0. Pixels are laid out in the order in which they are written.
void Resampler::lay_out_columns(int left, bool mirror) {
  const auto taps = static_cast<std::size_t>(columns_.taps), pairs = (taps + 1) / 2;
  const std::size_t count = columns_.starts.size();
  column_offsets_.resize(count);
  column_weights_.assign(count * pairs * 8, 0);
  for (std::size_t place = 0; place < count; ++place) {
    const std::size_t i = mirror ? count - 1 - place : place;
    column_offsets_[place] = 3 * (columns_.starts[i] - left);
    std::uint16_t* out = column_weights_.data() + place * pairs * 8;
    for (std::size_t k = 0; k < taps; ++k)
      std::fill_n(out + k / 2 * 8 + k % 2 * 3, 3, columns_.weights[i * taps + k]);
  }
}

// `kPairs` is the number of pairs of taps; 0: any number.
template <std::size_t kPairs>
void Resampler::write_row(const std::uint16_t* row, std::uint8_t* target) const {
  const std::size_t pairs = kPairs > 0 ? kPairs : static_cast<std::size_t>((columns_.taps + 1) / 2);
  // Each product is rounded down; half a unit per tap compensates.
  const auto rounding = static_cast<std::uint16_t>(128 + (rows_.taps + columns_.taps) / 2);
  const Samples start{rounding, rounding, rounding};
  const std::uint16_t* weights = column_weights_.data();
  const auto pixel_at = [&](int offset) {
    const std::uint16_t* in = row + offset;
    Samples sums = start;
    for (std::size_t pair = 0; pair < pairs; ++pair, in += 6, weights += 8)
      sums += scaled(load(in), load(weights));
    sums += __builtin_shufflevector(sums, Samples{}, 3, 4, 5, 6, 7, 8, 8, 8);
    return __builtin_convertvector(sums >> 8, Bytes);
  };
  const int* offset = column_offsets_.data();
  const int* last = offset + column_offsets_.size() - 1;
  for (; offset != last; ++offset, target += 3) {
    const Bytes pixel = pixel_at(*offset);
    std::memcpy(target, &pixel, 4);  // the next pixel overwrites the fourth byte
  }
  const Bytes pixel = pixel_at(*last);
  std::memcpy(target, &pixel, 3);
}

void Resampler::write_row(const std::uint16_t* row, std::uint8_t* target) const {
  const int pairs = (columns_.taps + 1) / 2;
  if (pairs == 1) return write_row<1>(row, target);
  if (pairs == 2) return write_row<2>(row, target);
  if (pairs == 3) return write_row<3>(row, target);
  return write_row<0>(row, target);
}

void Resampler::write_in_floats(const PixelView& view, const ResampleAxis& rows,
                                const ResampleAxis& columns, bool mirror, std::uint8_t* target) {
  const Region needed = needed_region(rows, columns);
  const auto samples = static_cast<std::size_t>(needed.size.width) * 3;
  const auto stride = static_cast<std::size_t>(view.region.size.width) * 3;
  std::vector<double> row(samples);
  for (int y = 0; y < rows.count; ++y) {
    std::fill(row.begin(), row.end(), 0.0);
    const Span span = reach(rows, y);
    weigh(rows, y, span, weights_);
    for (int from = span.begin; from < span.end; ++from) {
      const double weight = weights_[from - span.begin];
      const std::uint8_t* in = view.pixels +
                               static_cast<std::size_t>(from - view.region.top) * stride +
                               static_cast<std::size_t>(needed.left - view.region.left) * 3;
      for (std::size_t i = 0; i < samples; ++i) row[i] += weight * in[i];
    }
    for (int place = 0; place < columns.count; ++place, target += 3) {
      const int x = mirror ? columns.count - 1 - place : place;
      const Span reached = reach(columns, x);
      weigh(columns, x, reached, weights_);
      const double* in = row.data() + static_cast<std::size_t>(reached.begin - needed.left) * 3;
      double sums[3] = {0.5, 0.5, 0.5};
      for (const double weight : weights_)
        for (double& sum : sums) sum += weight * *in++;
      for (int c = 0; c < 3; ++c) target[c] = static_cast<std::uint8_t>(std::min(255.0, sums[c]));
    }
  }
}

void Resampler::write(const PixelView& view, const ResampleAxis& rows, const ResampleAxis& columns,
                      bool mirror, std::uint8_t* target) {
  if (taps_of(rows) + taps_of(columns) >= kManyTaps)
    return write_in_floats(view, rows, columns, mirror, target);
  set_taps(rows, rows_);
  set_taps(columns, columns_);
  const Region needed = needed_region(rows, columns);
  lay_out_columns(needed.left, mirror);
  const auto samples = static_cast<std::size_t>(needed.size.width) * 3;
  const auto stride = static_cast<std::size_t>(view.region.size.width) * 3;
  // Taps with weight zero may reach beyond the last pixel.
  row_.resize(samples + static_cast<std::size_t>(columns_.taps + 2) * 3 + 8);
  const auto taps = static_cast<std::size_t>(rows_.taps);
  inputs_.resize(taps);
  const std::uint8_t* corner =
      view.pixels + static_cast<std::size_t>(needed.left - view.region.left) * 3;
  const int last = needed.top + needed.size.height - 1;
  for (std::size_t y = 0; y < rows_.starts.size(); ++y) {
    for (std::size_t k = 0; k < taps; ++k) {
      const int row = std::min(rows_.starts[y] + static_cast<int>(k), last);
      inputs_[k] = corner + static_cast<std::size_t>(row - view.region.top) * stride;
    }
    combine_rows(inputs_.data(), rows_.weights.data() + y * taps, rows_.taps, samples, row_.data());
    write_row(row_.data(), target + y * columns_.starts.size() * 3);
  }
}

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

// By Interpolation; nearest and bilinear are not filters of this kind.
constexpr Kernel kKernels[] = {{}, {lanczos, 3}, {}, {bicubic, 2}, {box, 0.5}, {hamming, 1}};

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

void sample_nearest(const std::uint8_t* corner, std::size_t stride, ImageSize from, ImageSize to,
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
                        ImageSize resized, Interpolation filter, std::vector<std::uint8_t>& scratch,
                        std::uint8_t* target) {
  const auto size_of = [](int length) { return static_cast<std::size_t>(length); };
  const std::size_t stride = size_of(whole.width) * 3, row_bytes = size_of(resized.width) * 3;
  const std::uint8_t* corner = pixels + whole.place_of(region.top, region.left);
  if (filter == Interpolation::kNearest)
    return sample_nearest(corner, stride, region.size, resized, target);
  const Kernel& kernel = kKernels[static_cast<std::size_t>(filter)];
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
