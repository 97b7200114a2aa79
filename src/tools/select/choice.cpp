#include "tools/select/choice.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "train/features/neighbors.h"

namespace kiln {
namespace {

constexpr std::size_t kPool = 20'000;
// The ridge, in images with features of length 1. From 0.1 to 1 the choice is as good.
constexpr double kPrior = 0.3;
constexpr float kTaken = -std::numeric_limits<float>::infinity();

at::Tensor of_length_1(const at::Tensor& rows) {
  return rows / rows.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12);  // of zeros: zeros
}

}  // namespace

LabelingChoice::LabelingChoice(std::size_t count)
    : count_(count), size_(std::max(2 * count, kPool)) {}

void LabelingChoice::add(Candidate candidate) {
  candidate.features = of_length_1(candidate.features).to(at::kHalf);
  pool_.push_back(std::move(candidate));
  if (pool_.size() == 2 * size_) draw();
}

void LabelingChoice::add_labeled(const at::Tensor& features) {
  const at::Tensor rows = of_length_1(features.to(at::kDouble));
  const at::Tensor products = rows.t().mm(rows);
  known_ = known_.defined() ? known_ + products : products;
}

// By chance, and the same ones of the same images: those of the least hashes.
void LabelingChoice::draw() {
  std::ranges::sort(pool_, {}, [](const Candidate& one) { return std::pair(one.hash, one.image); });
  pool_.resize(std::min(pool_.size(), size_));
}

std::vector<Candidate> LabelingChoice::take() {
  draw();
  std::vector<Candidate> chosen;
  if (pool_.empty()) return chosen;
  std::vector<at::Tensor> features;
  for (Candidate& candidate : pool_) features.push_back(std::move(candidate.features));
  const at::Tensor rows = of_length_1(at::stack(features).to(at::kFloat));
  features.clear();
  const at::Tensor prior = kPrior * at::eye(rows.size(1), at::kDouble);
  // Of the weights the covariance, and of each image the variance of its answer, and what its label
  // would take from those of all.
  at::Tensor spread = (known_.defined() ? prior + known_ : prior).inverse().to(at::kFloat);
  const at::Tensor all = rows.t().mm(rows) / rows.size(0);
  at::Tensor products = rows.mm(spread);
  at::Tensor variance = (products * rows).sum(1);
  at::Tensor worth = (products.mm(all) * products).sum(1);
  while (chosen.size() < count_) {
    const auto best = (worth / (1 + variance)).argmax().item<std::int64_t>();
    if (worth[best].item<float>() == kTaken) break;
    const at::Tensor row = rows[best], change = spread.mv(row), of_all = all.mv(change);
    const at::Tensor scale = 1 + variance[best];
    products = at::stack({change / scale, spread.mv(of_all), row}).mm(rows.t());
    const at::Tensor share = products[0];
    worth += share * (share * change.dot(of_all) - 2 * products[1]);
    variance -= share.square() * scale;
    spread -= change.outer(change / scale);
    worth.masked_fill_(products[2] > kSameFeatures, kTaken);
    worth[best] = kTaken;  // of zeros, it is not like itself
    chosen.push_back(std::move(pool_[static_cast<std::size_t>(best)]));
  }
  return chosen;
}

}  // namespace kiln
