#include "data/transform/image_pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/system.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/transform/augment.h"
#include "data/transform/crop.h"

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

// The axis in the reduced image.
ResampleAxis reduced(ResampleAxis axis, int reduction) {
  axis.begin /= reduction;
  axis.length /= reduction;
  return axis;
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
