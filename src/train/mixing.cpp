#include "train/mixing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kiln {
namespace {

// A uniform draw from the open interval (0, 1).
double inner_uniform(RandomSequence& random) {
  return (static_cast<double>(random.next() >> 12) + 0.5) * 0x1.0p-52;
}

// The logarithm of a draw from the Gamma distribution; the draw itself may underflow a double.
// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double log_gamma_draw(double shape, RandomSequence& random) {
  if (shape < 1) {
    const double power = std::log(inner_uniform(random)) / shape;
    return log_gamma_draw(shape + 1, random) + power;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double radius = std::sqrt(-2 * std::log(inner_uniform(random)));
    // Normally distributed.
    const double x = radius * std::cos(2 * std::numbers::pi * inner_uniform(random));
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(inner_uniform(random)) < x * x / 2 + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

// The rows of mix_numbers(), each with one number per image. The partner is an index into the
// batch. Places and pixels are exact in float32, up to 2^24.
enum Row : std::int64_t { kPartner, kBlend, kShare, kTop, kBottom, kLeft, kRight, kNumRows };
static_assert(kNumRows <= DeviceUploader::kMaxNumbers);

// A mask of the pixels inside the box of their image, [N, 1, H, W]. `mix` has the rows.
at::Tensor inside_boxes(const at::Tensor& mix, const at::Tensor& images) {
  const auto between = [&](std::int64_t size, Row begin, Row end) {
    const at::Tensor at = at::arange(size, mix.options()).unsqueeze(0);
    return at.ge(mix[begin].unsqueeze(1)).logical_and(at.lt(mix[end].unsqueeze(1)));  // [N, size]
  };
  const at::Tensor rows = between(images.size(2), kTop, kBottom);
  const at::Tensor columns = between(images.size(3), kLeft, kRight);
  return rows.unsqueeze(2).logical_and(columns.unsqueeze(1)).unsqueeze(1);
}

}  // namespace

double beta_draw(double alpha, RandomSequence& random) {
  const double a = log_gamma_draw(alpha, random), b = log_gamma_draw(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

PairMix pair_mix(const MixPlan& plan, std::uint64_t epoch, std::uint64_t pair, std::int64_t height,
                 std::int64_t width) {
  constexpr std::uint64_t kPurpose = 0x6d69786564;  // "mixed"
  RandomSequence random{kPurpose, plan.seed, epoch, pair};
  const bool is_either = plan.mixup > 0 && plan.cutmix > 0;
  const bool cuts = is_either ? random.uniform() < 0.5 : plan.cutmix > 0;
  const double lambda = beta_draw(cuts ? plan.cutmix : plan.mixup, random);
  if (!cuts) return {lambda, lambda};
  // A box of about 1 - lambda of the image's area, centered on a random pixel and clipped to the
  // image.
  const double half = std::sqrt(1 - lambda) / 2;
  const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
  const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
  const auto up = static_cast<std::int64_t>(half * static_cast<double>(height));
  const auto aside = static_cast<std::int64_t>(half * static_cast<double>(width));
  PairMix mix{.top = std::max<std::int64_t>(y - up, 0),
              .bottom = std::min(y + up, height),
              .left = std::max<std::int64_t>(x - aside, 0),
              .right = std::min(x + aside, width)};
  const auto area = static_cast<double>((mix.bottom - mix.top) * (mix.right - mix.left));
  mix.share = 1 - area / static_cast<double>(height * width);
  return mix;
}

std::vector<float> mix_numbers(const MixPlan& plan, std::uint64_t epoch, std::uint64_t first_pair,
                               const std::vector<std::uint32_t>& places, ImageSize size) {
  const std::size_t count = places.size();
  std::vector<float> numbers(kNumRows * count);
  const auto set = [&](std::size_t image, std::size_t partner, const PairMix& mix) {
    const double column[kNumRows] = {static_cast<double>(partner),
                                     mix.blend,
                                     mix.share,
                                     static_cast<double>(mix.top),
                                     static_cast<double>(mix.bottom),
                                     static_cast<double>(mix.left),
                                     static_cast<double>(mix.right)};
    for (std::size_t row = 0; row < kNumRows; ++row)
      numbers[row * count + image] = static_cast<float>(column[row]);
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 >= count || places[i] % 2 == 1 || places[i + 1] != places[i] + 1) {
      set(i, i, {});  // no partner
      continue;
    }
    const PairMix mix = pair_mix(plan, epoch, first_pair + places[i] / 2, size.height, size.width);
    set(i, i + 1, mix);
    set(i + 1, i, mix);
    ++i;
  }
  return numbers;
}

DeviceBatch mixed(const DeviceBatch& batch, const MixPlan& plan) {
  const c10::AutoGradMode no_grad(false);
  const at::Tensor mix = batch.numbers.view({kNumRows, -1});
  const at::Tensor partners = mix[kPartner].to(at::kLong);
  const at::Tensor theirs = batch.images.index_select(0, partners);
  at::Tensor images = batch.images;
  if (plan.mixup > 0) {
    const at::Tensor blends = mix[kBlend].to(images.scalar_type()).view({-1, 1, 1, 1});
    images = images * blends + theirs * (1 - blends);
  }
  if (plan.cutmix > 0) images = at::where(inside_boxes(mix, images), theirs, images);
  const at::Tensor labels = batch.labels, others = labels.index_select(0, partners);
  const at::Tensor shares = mix[kShare], is_first = shares.ge(0.5);
  DeviceBatch out{images.contiguous(at::MemoryFormat::ChannelsLast),
                  at::where(is_first, labels, others), at::where(is_first, others, labels),
                  at::where(is_first, shares, 1 - shares)};
  if (batch.weights.defined()) {
    const at::Tensor weights = batch.weights, their_weights = weights.index_select(0, partners);
    out.weights = at::where(is_first, weights, their_weights);
    out.other_weights = at::where(is_first, their_weights, weights);
  }
  return out;
}

}  // namespace kiln
