#include "tools/select/choice.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "train/features/neighbors.h"

namespace kiln {
namespace {

constexpr std::size_t kPoolOfOne = 10, kLeastPool = 1000, kMostCompared = 20'000;
constexpr float kFarthest = 2;  // of 1 minus a cosine
// Images that are alike in at least so many of a hundred held-out ones are nothing unusual.
constexpr double kUnusual = 0.05;
constexpr double kLeastWorth = 1e-6;  // the surest image can be chosen, too

}  // namespace

LabelingChoice::LabelingChoice(std::size_t count)
    : count_(count),
      size_(std::max(2 * count, std::clamp(kPoolOfOne * count, kLeastPool, kMostCompared))) {}

void LabelingChoice::add(Candidate candidate) {
  const Score& score = candidate.score;
  const auto second = score.best.size() > 1 ? score.best[1].confidence : 0.0F;
  const double doubt = 1 - static_cast<double>(score.best[0].confidence - second);
  const double unlikeness = score.alike ? std::max(0.0, 1 - *score.alike / kUnusual) : 0;
  candidate.worth = std::max({doubt, unlikeness, kLeastWorth});
  candidate.reason = unlikeness > doubt ? ChoiceReason::kUnlike : ChoiceReason::kUnsure;
  candidate.features =
      (candidate.features / candidate.features.norm().clamp_min(1e-12)).to(at::kHalf);
  pool_.push_back(std::move(candidate));
  if (pool_.size() == 2 * size_) keep_best();
}

void LabelingChoice::keep_best() {
  std::ranges::stable_sort(pool_, std::ranges::greater{}, &Candidate::worth);
  pool_.resize(std::min(pool_.size(), size_));
}

std::vector<Candidate> LabelingChoice::take() {
  keep_best();
  std::vector<Candidate> chosen;
  if (pool_.empty()) return chosen;
  std::vector<at::Tensor> features;
  std::vector<float> worths;
  for (Candidate& candidate : pool_) {
    features.push_back(std::move(candidate.features));
    worths.push_back(static_cast<float>(candidate.worth));
  }
  at::Tensor rows = at::stack(features).to(at::kFloat);
  rows /= rows.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);  // float16 has changed their lengths
  const at::Tensor worth = at::tensor(worths);
  features.clear();
  at::Tensor nearest = at::full({rows.size(0)}, kFarthest);  // -1: a copy of one chosen
  while (chosen.size() < count_) {
    const auto best = (worth * nearest).argmax().item<std::int64_t>();
    if (nearest[best].item<float>() < 0) break;
    nearest = nearest.minimum(1 - rows.mv(rows[best]));
    nearest.masked_fill_(nearest < 1 - kSameFeatures, -1);
    const auto place = static_cast<std::size_t>(best);
    chosen.push_back(std::move(pool_[place]));
    if (place >= count_) chosen.back().reason = ChoiceReason::kSpread;
  }
  return chosen;
}

}  // namespace kiln
