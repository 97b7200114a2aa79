#include "data/transform/image_pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/system.h"
#include "data/image/resample.h"
#include "data/transform/augment.h"

namespace kiln {
namespace {

constexpr std::size_t kPixels = 16;  // fills whole vector registers of any size
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

// The same, vectorized by the compiler with 8 floats at a time, for processors with AVX2. The
// result is bit-identical.
[[gnu::target("avx2")]] void scale_runs_avx2(const std::uint8_t* rgb, std::size_t num_runs,
                                             const Factors& factors, float* out) {
  scale_runs(rgb, num_runs, factors, out);
}

// Returns the axis in the reduced image.
ResampleAxis reduced(ResampleAxis axis, int reduction) {
  axis.begin /= reduction;
  axis.length /= reduction;
  return axis;
}

// Returns the random sequence of an image. Its first draw is for mirroring, whether it is used or
// not, so that `crop` crops as `crop,flip` does.
RandomSequence draws_of(const DrawKey& key) {
  if (key.repeat == 0) return {key.seed, key.epoch, key.image};
  return {key.seed, key.epoch, key.image, key.repeat};
}

bool draw_mirror(const TransformSpec& plan, RandomSequence& random) {
  const bool is_drawn = random.below(2) == 1;
  return is_drawn && plan.augment.has(AugmentStep::kFlip);
}

// Later operations have their own sequences, so that they do not affect the draws of the others.
RandomSequence draws_of(const DrawKey& key, AugmentStep step) {
  return {key.seed, key.epoch, key.image, key.repeat, static_cast<std::uint64_t>(step)};
}

// Applies the operations after resizing and mirroring. `random` continues after the crop's draws.
void change_pixels(const TransformSpec& plan, const DrawKey& key, RandomSequence random,
                   std::uint8_t* pixels, std::vector<std::uint8_t>& copy) {
  const Augment steps = plan.augment;
  if (steps.has(AugmentStep::kVflip) && draws_of(key, AugmentStep::kVflip).below(2) == 1)
    flip_vertically(pixels, plan.output);
  if (steps.has(AugmentStep::kRotate90)) {
    RandomSequence own = draws_of(key, AugmentStep::kRotate90);
    turn(pixels, plan.output, draw_quarter_turns(plan.output, own), copy);
  }
  if (steps.has(AugmentStep::kColor)) {
    RandomSequence own = draws_of(key, AugmentStep::kColor);
    for (const DrawnOperation& drawn : draw_color_jitter(own))
      apply_operation(drawn, pixels, plan.output, copy);
  }
  const bool erases = steps.has(AugmentStep::kErase);
  if (!erases && !steps.has(AugmentStep::kTrivial)) return;
  const DrawnOperation drawn = draw_operation(random);
  if (steps.has(AugmentStep::kTrivial)) apply_operation(drawn, pixels, plan.output, copy);
  if (erases) random_erase(pixels, plan.output, plan.fill.data(), random);
}

// What of an image goes to which part of the output.
struct Placement {
  Placing from;
  Region to;
};

// The size that an image gets as a whole. Throws ImageFault for one that the plan does not accept.
ImageSize whole_size(ImageSize image, const TransformSpec& plan) {
  const ImageSize out = plan.output;
  if (plan.fit == Fit::kPad) return inner_size(image, out);
  if (plan.fit == Fit::kStretch || (image == out && plan.keep_exact)) return out;
  const ImageSize resized =
      plan.short_side > 0 ? resized_size(image, plan.short_side) : covering_size(image, out);
  if (resized.height < out.height || resized.width < out.width)
    throw ImageFault("resized to " + text_of(resized) + " it is smaller than " + text_of(out));
  return resized;
}

// The center of the resized image in the center of the output. Throws as whole_size() does.
Placement place_whole(ImageSize image, const TransformSpec& plan) {
  const ImageSize resized = whole_size(image, plan);
  Placement placement{place_crop({0, 0, image}, resized), {}};
  auto& [from, to] = placement;
  const auto center = [](int out, ResampleAxis& axis) {
    axis.count = std::min(out, axis.resized);
    axis.first = center_offset(axis.resized - axis.count);
    return center_offset(out - axis.count);
  };
  to.top = center(plan.output.height, from.rows);
  to.left = center(plan.output.width, from.columns);
  to.size = {from.rows.count, from.columns.count};
  return placement;
}

// Writes the part of `view` that the placing selects.
void put(const PixelView& view, int reduction, const Placing& placing, bool mirror,
         Resampler& resampler, std::uint8_t* target) {
  const auto& [rows, columns] = placing;
  if (rows.length == rows.resized && columns.length == columns.resized)
    copy_region(view,
                {static_cast<int>(rows.begin) + rows.first,
                 static_cast<int>(columns.begin) + columns.first,
                 {rows.count, columns.count}},
                mirror, target);
  else
    resampler.write(view, reduced(rows, reduction), reduced(columns, reduction), mirror, target);
}

// Moves the first pixels of `target`, those of `picture`, to their part of an image of size `out`,
// and fills what is around them. `copy` is scratch memory.
void frame(ImageSize out, const Region& picture, const std::array<std::uint8_t, 3>& fill,
           std::vector<std::uint8_t>& copy, std::uint8_t* target) {
  copy.assign(target, target + picture.size.num_pixels() * 3);
  for (std::size_t i = 0; i < out.num_pixels(); ++i) std::ranges::copy(fill, target + i * 3);
  for (int y = 0; y < picture.size.height; ++y)
    std::copy_n(copy.data() + picture.size.place_of(y, 0), picture.size.width * 3,
                target + out.place_of(picture.top + y, picture.left));
}

// Gives the result of a chain its size.
void fit(Image& image, ImageSize size, Resampler& resampler) {
  if (image.size == size) return;
  Image fitted{size, std::vector<std::uint8_t>(image_bytes({.output = size}))};
  put({image.pixels.data(), {0, 0, image.size}}, 1, place_whole(image.size, {.output = size}).from,
      /*mirror=*/false, resampler, fitted.pixels.data());
  image = std::move(fitted);
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
  if (cpu_has("avx2"))
    scale_runs_avx2(rgb, num_runs, factors, out);
  else
    scale_runs(rgb, num_runs, factors, out);
  for (std::size_t i = num_runs * kValues; i < num_pixels * 3; ++i)
    out[i] = (static_cast<float>(rgb[i]) / 255.0F - factors.mean[i % 3]) / factors.std[i % 3];
}

int usual_short_side(int size) {
  return static_cast<int>(std::lround(size * 256.0 / 224.0));
}

bool can_be_kept(const TransformSpec& plan) {
  return plan.chain ? plan.chain->can_be_kept : !takes_random_parts(plan.augment);
}

TransformSpec kept_form(TransformSpec plan) {
  plan.augment = Augment::kNone;
  if (plan.chain) {
    ImageChain fixed = *plan.chain;
    fixed.whole = fixed.fixed;
    fixed.drawn = {};
    plan.chain = std::make_shared<const ImageChain>(std::move(fixed));
  }
  return plan;
}

std::string ImagePipeline::write(std::string_view bytes, const TransformSpec& plan,
                                 const DrawKey& key, std::uint8_t* target) {
  if (plan.chain) return write_by_chain(bytes, plan, key, target);
  RandomSequence random = draws_of(key);
  const bool mirror = draw_mirror(plan, random);
  const bool crops = takes_random_parts(plan.augment);
  const RandomSequence before_crop = random;
  Placement placement;
  const auto choose = [&](ImageSize whole) {
    random = before_crop;
    placement =
        crops ? Placement{place_crop(draw_crop(whole, random), plan.output), {0, 0, plan.output}}
              : place_whole(whole, plan);
    const auto& [rows, columns] = placement.from;
    // Pixels that are the same in every epoch are computed from the full resolution.
    const double shrinks_by =
        crops ? std::min(rows.length / rows.resized, columns.length / columns.resized) : 1;
    return WantedPart{needed_region(rows, columns), shrinks_by};
  };
  Stopwatch watch;
  decode_part(bytes, plan.exif, choose, part_);
  times_.decode = watch.lap();
  put(part_.view(), part_.reduction, placement.from, mirror, work_.resampler, target);
  picture_ = placement.to;
  if (mirror) picture_.left = plan.output.width - picture_.size.width - picture_.left;
  if (picture_.size != plan.output) frame(plan.output, picture_, plan.fill, work_.copy, target);
  times_.resample = watch.lap();
  change_pixels(plan, key, random, target, work_.copy);
  times_.augment = watch.lap();
  return std::exchange(part_.damage, {});
}

std::string ImagePipeline::write_by_chain(std::string_view bytes, const TransformSpec& plan,
                                          const DrawKey& key, std::uint8_t* target) {
  Stopwatch watch;
  DecodedImage decoded = decode_image(bytes, plan.exif);
  times_.decode = watch.lap();
  plan.chain->fixed.apply(decoded.image, kInferenceKey, work_);
  if (plan.chain->can_be_kept) fit(decoded.image, plan.output, work_.resampler);
  times_.resample = watch.lap();
  plan.chain->drawn.apply(decoded.image, key, work_);
  fit(decoded.image, plan.output, work_.resampler);
  std::ranges::copy(decoded.image.pixels, target);
  picture_ = {0, 0, plan.output};
  times_.augment = watch.lap();
  return std::move(decoded.damage);
}

void ImagePipeline::augment(const TransformSpec& plan, const DrawKey& key, std::uint8_t* pixels) {
  if (plan.chain) {
    if (plan.chain->drawn.empty()) return;
    Image image{plan.output, {pixels, pixels + image_bytes(plan)}};
    plan.chain->drawn.apply(image, key, work_);
    fit(image, plan.output, work_.resampler);
    std::ranges::copy(image.pixels, pixels);
    return;
  }
  RandomSequence random = draws_of(key);
  if (draw_mirror(plan, random)) flip_horizontally(pixels, plan.output);
  change_pixels(plan, key, random, pixels, work_.copy);
}

}  // namespace kiln
