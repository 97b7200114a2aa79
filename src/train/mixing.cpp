#include "train/mixing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace kiln {
namespace {

// A uniform draw from the open interval (0, 1).
double inner_uniform(RandomSequence& random) {
  return (static_cast<double>(random.next() >> 12) + 0.5) * 0x1.0p-52;
}

double normal_draw(RandomSequence& random) {
  const double radius = std::sqrt(-2 * std::log(inner_uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * inner_uniform(random));
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
    const double x = normal_draw(random), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(inner_uniform(random)) < x * x / 2 + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

// A box of about 1 - lambda of the image's area, centered on a random pixel and clipped to the
// image.
Box box_draw(double lambda, std::int64_t height, std::int64_t width, RandomSequence& random) {
  const double half = std::sqrt(1 - lambda) / 2;
  const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
  const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
  const auto up = static_cast<std::int64_t>(half * static_cast<double>(height));
  const auto aside = static_cast<std::int64_t>(half * static_cast<double>(width));
  return {std::max<std::int64_t>(y - up, 0), std::min(y + up, height),
          std::max<std::int64_t>(x - aside, 0), std::min(x + aside, width)};
}

// How the images of a batch are mixed: one element per image.
struct BatchMix {
  std::vector<std::int64_t> partners;  // indices into the batch
  std::vector<float> blends, shares;
  std::vector<std::int64_t> tops, bottoms, lefts, rights;

  void add(std::int64_t partner, const PairMix& mix) {
    partners.push_back(partner);
    blends.push_back(static_cast<float>(mix.blend));
    shares.push_back(static_cast<float>(mix.share));
    tops.push_back(mix.box.top);
    bottoms.push_back(mix.box.bottom);
    lefts.push_back(mix.box.left);
    rights.push_back(mix.box.right);
  }
};

BatchMix batch_mix(const DeviceBatch& batch, const MixPlan& plan, const BatchPlace& place) {
  BatchMix all;
  const std::vector<std::uint32_t>& places = place.places;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto self = static_cast<std::int64_t>(i);
    if (i + 1 >= places.size() || places[i] % 2 == 1 || places[i + 1] != places[i] + 1) {
      all.add(self, {});  // no partner
      continue;
    }
    const PairMix mix = pair_mix(plan, place.epoch, place.first_pair + places[i] / 2,
                                 batch.images.size(2), batch.images.size(3));
    all.add(self + 1, mix);
    all.add(self, mix);
    ++i;
  }
  return all;
}

// A mask of the pixels inside the box of their image, [N, 1, H, W].
at::Tensor inside_boxes(const BatchMix& mix, const at::Tensor& images) {
  const auto there = [&](const std::vector<std::int64_t>& values) {
    return at::tensor(values, at::kLong).to(images.device()).unsqueeze(1);
  };
  const auto between = [&](std::int64_t size, const std::vector<std::int64_t>& begin,
                           const std::vector<std::int64_t>& end) {
    const at::Tensor at = at::arange(size, images.options().dtype(at::kLong)).unsqueeze(0);
    return at.ge(there(begin)).logical_and(at.lt(there(end)));  // [N, size]
  };
  const at::Tensor rows = between(images.size(2), mix.tops, mix.bottoms);
  const at::Tensor columns = between(images.size(3), mix.lefts, mix.rights);
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
  if (!cuts) return {lambda, {}, lambda};
  const Box box = box_draw(lambda, height, width, random);
  const auto area = static_cast<double>((box.bottom - box.top) * (box.right - box.left));
  return {1, box, 1 - area / static_cast<double>(height * width)};
}

DeviceBatch mixed(const DeviceBatch& batch, const MixPlan& plan, const BatchPlace& place) {
  const c10::AutoGradMode no_grad(false);
  const at::Device device = batch.images.device();
  const BatchMix mix = batch_mix(batch, plan, place);
  const at::Tensor partners = at::tensor(mix.partners, at::kLong).to(device);
  const at::Tensor theirs = batch.images.index_select(0, partners);
  const auto type = batch.images.scalar_type();
  at::Tensor images = batch.images;
  if (plan.mixup > 0) {
    const at::Tensor blends = at::tensor(mix.blends).to(device, type).view({-1, 1, 1, 1});
    images = images * blends + theirs * (1 - blends);
  }
  if (plan.cutmix > 0) images = at::where(inside_boxes(mix, images), theirs, images);
  const at::Tensor labels = batch.labels, others = labels.index_select(0, partners);
  const at::Tensor shares = at::tensor(mix.shares).to(device);
  const at::Tensor is_first = shares.ge(0.5);
  return {images.contiguous(at::MemoryFormat::ChannelsLast), at::where(is_first, labels, others),
          at::where(is_first, others, labels), at::where(is_first, shares, 1 - shares)};
}

}  // namespace kiln
