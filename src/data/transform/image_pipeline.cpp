#include "data/transform/image_pipeline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/transform/augment.h"

namespace kiln {
namespace {

constexpr std::size_t kPixels = 16;  // a whole number of vector registers of any size
constexpr std::size_t kValues = kPixels * 3;

struct Factors {
  std::array<float, kValues> mean, std;
};

[[gnu::always_inline]] inline void scale_runs(const std::uint8_t* rgb, std::size_t num_runs,
                                              const Factors& factors, float* out) {
  for (std::size_t run = 0; run < num_runs; ++run, rgb += kValues, out += kValues)
    for (std::size_t i = 0; i < kValues; ++i)
      out[i] = (static_cast<float>(rgb[i]) / 255.0F - factors.mean[i]) / factors.std[i];
}

// The same, for the compiler to vectorize with 8 floats at a time on processors with AVX2. The
// result has the same bits.
[[gnu::target("avx2")]] void scale_runs_avx2(const std::uint8_t* rgb, std::size_t num_runs,
                                             const Factors& factors, float* out) {
  scale_runs(rgb, num_runs, factors, out);
}

class Stopwatch {
 public:
  // Seconds since the previous call.
  double lap() {
    const Clock::time_point before = std::exchange(since_, Clock::now());
    return std::chrono::duration<double>(since_ - before).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_ = Clock::now();
};

// How an image is resized and cropped to its output.
struct Placing {
  ResampleAxis rows, columns;
};

std::string text_of(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

// Half of `excess`, rounded to the even neighbor as Python's round does.
int center_offset(int excess) {
  const int half = excess / 2;
  return excess % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

// As torchvision's Resize: the long side is rounded down.
ImageSize resized_size(ImageSize from, std::int64_t short_side) {
  const std::int64_t long_side =
      short_side * std::max(from.height, from.width) / std::min(from.height, from.width);
  if (short_side * long_side > kMaxImagePixels)
    throw ImageFault("too elongated to resize: " + text_of(from));
  const auto a = static_cast<int>(short_side), b = static_cast<int>(long_side);
  return from.height <= from.width ? ImageSize{a, b} : ImageSize{b, a};
}

ResampleAxis axis_of(int begin, int length, int resized, int first, int count) {
  return {static_cast<double>(begin), static_cast<double>(length), resized, first, count};
}

Placing place_center(ImageSize whole, const TransformSpec& plan) {
  const ImageSize out = plan.output;
  ImageSize resized = whole;
  if (whole != out || !plan.keep_exact) {
    if (plan.short_side == 0)
      throw ImageFault("its size is " + text_of(whole) + ", not " + text_of(out));
    resized = resized_size(whole, plan.short_side);
    if (resized.height < out.height || resized.width < out.width)
      throw ImageFault("resized to " + text_of(resized) + " it is smaller than " + text_of(out));
  }
  return {
      axis_of(0, whole.height, resized.height, center_offset(resized.height - out.height),
              out.height),
      axis_of(0, whole.width, resized.width, center_offset(resized.width - out.width), out.width)};
}

// The reduction that the decoder may assume. Pixels that are the same in every epoch are computed
// from the full resolution.
double shrinks_by(const Placing& placing, Augment augment) {
  if (!takes_random_parts(augment)) return 1;
  const auto& [rows, columns] = placing;
  return std::min(rows.length / rows.resized, columns.length / columns.resized);
}

// The axis in the reduced image.
ResampleAxis reduced(ResampleAxis axis, int reduction) {
  axis.begin /= reduction;
  axis.length /= reduction;
  return axis;
}

Placing place_crop(const Region& crop, ImageSize out) {
  return {axis_of(crop.top, crop.size.height, out.height, 0, out.height),
          axis_of(crop.left, crop.size.width, out.width, 0, out.width)};
}

bool is_copy(const Placing& placing) {
  return placing.rows.length == placing.rows.resized &&
         placing.columns.length == placing.columns.resized;
}

// The region to copy if is_copy().
Region unchanged_region(const Placing& placing) {
  const auto& [rows, columns] = placing;
  return {static_cast<int>(rows.begin) + rows.first,
          static_cast<int>(columns.begin) + columns.first,
          {rows.count, columns.count}};
}

void copy_row(const std::uint8_t* from, int width, bool mirror, std::uint8_t* to) {
  const auto bytes = static_cast<std::size_t>(width) * 3;
  if (!mirror) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += 3) std::memcpy(to + at, from + bytes - 3 - at, 3);
}

void copy_region(const PixelView& view, const Region& wanted, bool mirror, std::uint8_t* target) {
  const auto stride = static_cast<std::size_t>(view.region.size.width) * 3;
  const std::uint8_t* from = view.pixels +
                             static_cast<std::size_t>(wanted.top - view.region.top) * stride +
                             static_cast<std::size_t>(wanted.left - view.region.left) * 3;
  for (int y = 0; y < wanted.size.height; ++y, from += stride) {
    copy_row(from, wanted.size.width, mirror, target);
    target += static_cast<std::size_t>(wanted.size.width) * 3;
  }
}

}  // namespace

void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const Normalization& scaling,
                      float* out) {
  Factors factors;
  for (std::size_t i = 0; i < kValues; ++i) {
    factors.mean[i] = static_cast<float>(scaling.mean[i % 3]);
    factors.std[i] = static_cast<float>(scaling.std[i % 3]);
  }
  const std::size_t num_runs = num_pixels / kPixels;
  if (__builtin_cpu_supports("avx2"))
    scale_runs_avx2(rgb, num_runs, factors, out);
  else
    scale_runs(rgb, num_runs, factors, out);
  for (std::size_t i = num_runs * kValues; i < num_pixels * 3; ++i)
    out[i] = (static_cast<float>(rgb[i]) / 255.0F - factors.mean[i % 3]) / factors.std[i % 3];
}

int usual_short_side(int size) {
  return static_cast<int>(std::lround(size * 256.0 / 224.0));
}

bool draws_mirror(const TransformSpec& plan, const DrawKey& key) {
  RandomSequence random{key.seed, key.epoch, key.image};
  return plan.augment != Augment::kNone && random.below(2) == 1;
}

void mirror_in_place(std::uint8_t* pixels, ImageSize size) {
  const auto width = static_cast<std::size_t>(size.width);
  for (int y = 0; y < size.height; ++y, pixels += width * 3)
    for (std::size_t left = 0; left < width / 2; ++left)
      std::swap_ranges(pixels + left * 3, pixels + left * 3 + 3, pixels + (width - 1 - left) * 3);
}

struct ImagePipeline::Scratch {
  ImagePart part;
  Resampler resampler;
  std::vector<std::uint8_t> copy;
  PipelineTimes times;
};

ImagePipeline::ImagePipeline() : scratch_(std::make_unique<Scratch>()) {}
ImagePipeline::~ImagePipeline() = default;
ImagePipeline::ImagePipeline(ImagePipeline&&) noexcept = default;

const PipelineTimes& ImagePipeline::times() const {
  return scratch_->times;
}

std::size_t ImagePipeline::capacity() const {
  return scratch_->part.pixels.size();
}

void ImagePipeline::reserve(std::size_t bytes) {
  scratch_->part.reserve(bytes);
}

std::string ImagePipeline::write(std::string_view bytes, const TransformSpec& plan,
                                 const DrawKey& key, std::uint8_t* target) {
  RandomSequence random{key.seed, key.epoch, key.image};
  const bool mirror = plan.augment != Augment::kNone && random.below(2) == 1;
  const bool crops = takes_random_parts(plan.augment);
  const RandomSequence before_crop = random;
  Placing placing;
  ImagePart& part = scratch_->part;
  const auto choose = [&](ImageSize whole) {
    random = before_crop;
    placing = crops ? place_crop(draw_crop(whole, random), plan.output) : place_center(whole, plan);
    return WantedPart{needed_region(placing.rows, placing.columns),
                      shrinks_by(placing, plan.augment)};
  };
  Stopwatch watch;
  decode_part(bytes, choose, part);
  scratch_->times.decode = watch.lap();
  if (is_copy(placing)) {
    copy_region(part.view(), unchanged_region(placing), mirror, target);
  } else {
    scratch_->resampler.write(part.view(), reduced(placing.rows, part.reduction),
                              reduced(placing.columns, part.reduction), mirror, target);
  }
  scratch_->times.resample = watch.lap();
  if (plan.augment == Augment::kStrong) {
    apply_operation(draw_operation(random), target, plan.output, scratch_->copy);
    random_erase(target, plan.output, plan.erased.data(), random);
  }
  scratch_->times.augment = watch.lap();
  return std::exchange(part.damage, {});
}

}  // namespace kiln
