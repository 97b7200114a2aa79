#include "train/task.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "record/evaluation.h"
#include "train/evaluation.h"

namespace kiln {
namespace {

constexpr std::int64_t kNoLabel = -100;  // PyTorch's ignore_index; no image has this label

std::optional<at::Tensor> as_type_of(const at::Tensor& logits, const at::Tensor& weights) {
  if (!weights.defined()) return std::nullopt;
  return weights.to(logits.scalar_type());
}

// The class that max() finds first, so that it is the same whatever topk() makes of ties.
Answers likeliest(const at::Tensor& shares) {
  constexpr std::int64_t kNumNext = Prediction::kNumNext;
  const auto [most, predicted] = shares.max(1, /*keepdim=*/true);
  const auto [next, classes] =
      shares.scatter(1, predicted, -1).topk(std::min(kNumNext, shares.size(1) - 1), 1);
  return {at::cat({most, next}, 1), at::cat({predicted, classes}, 1)};
}

class SingleLabel final : public Task {
 public:
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weights,
                  double smoothing, at::Reduction::Reduction reduction) const override {
    return at::cross_entropy_loss(logits, labels, as_type_of(logits, weights), reduction, kNoLabel,
                                  smoothing);
  }

  std::pair<at::Tensor, at::Tensor> loss_and_slope(const at::Tensor& logits,
                                                   const at::Tensor& labels) const override {
    const at::Tensor logs = logits.log_softmax(1), ids = labels.unsqueeze(1);
    at::Tensor slope = logs.exp();  // predicted probabilities minus the one-hot labels
    slope.scatter_add_(1, ids, at::full({slope.size(0), 1}, -1.0, slope.options()));
    return {logs.gather(1, ids).squeeze(1).neg(), std::move(slope)};
  }

  std::pair<at::Tensor, at::Tensor> hits(const at::Tensor& logits,
                                         const at::Tensor& labels) const override {
    const std::int64_t k = std::min<std::int64_t>(5, logits.size(1));
    const at::Tensor ranked = std::get<1>(logits.topk(k, 1));    // [N, k]
    const at::Tensor are_hits = ranked.eq(labels.unsqueeze(1));  // [N, k]
    return {are_hits.select(1, 0).sum().to(at::kDouble), are_hits.sum().to(at::kDouble)};
  }

  Answers answers(const at::Tensor& logits) const override {
    return likeliest(logits.softmax(1, at::kFloat));
  }
};

class SeveralLabels final : public Task {
 public:
  SeveralLabels(const std::vector<std::vector<int>>& sets, std::size_t num_classes,
                const at::Device& device) {
    at::Tensor table =
        at::zeros({std::ssize(sets), static_cast<std::int64_t>(num_classes)}, at::kByte);
    auto* row = table.mutable_data_ptr<std::uint8_t>();
    for (const std::vector<int>& ids : sets) {
      for (const int id : ids) row[id] = 1;
      row += num_classes;
    }
    table_ = table.to(device);
  }

  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weights,
                  double smoothing, at::Reduction::Reduction reduction) const override {
    at::Tensor targets = table_.index_select(0, labels).to(logits.scalar_type());
    if (smoothing > 0) targets = targets * (1 - smoothing) + smoothing / 2;
    const at::Tensor each =
        at::binary_cross_entropy_with_logits(logits, targets, {}, as_type_of(logits, weights),
                                             at::Reduction::None)
            .mean(1);
    return reduction == at::Reduction::Sum ? each.sum() : each;
  }

  std::pair<at::Tensor, at::Tensor> loss_and_slope(const at::Tensor& logits,
                                                   const at::Tensor& labels) const override {
    const at::Tensor targets = table_.index_select(0, labels);
    return {loss(logits, labels, {}, 0, at::Reduction::None) * logits.size(1),
            logits.sigmoid() - targets};
  }

  std::pair<at::Tensor, at::Tensor> hits(const at::Tensor& logits,
                                         const at::Tensor& labels) const override {
    const at::Tensor targets = table_.index_select(0, labels);
    const at::Tensor likeliest = logits.argmax(1, /*keepdim=*/true);
    return {logits.ge(0).eq(targets).all(1).sum().to(at::kDouble),
            targets.gather(1, likeliest).sum().to(at::kDouble)};
  }

  Answers answers(const at::Tensor& logits) const override {
    return likeliest(logits.to(at::kFloat).sigmoid());
  }

 private:
  at::Tensor table_;  // uint8 [sets, C]
};

}  // namespace

const Task& single_label() noexcept {
  static const SingleLabel task;
  return task;
}

std::shared_ptr<const Task> task_of(const std::vector<std::vector<int>>& sets,
                                    std::size_t num_classes, const at::Device& device) {
  if (sets.empty()) return {&single_label(), [](const Task*) {}};
  return std::make_shared<SeveralLabels>(sets, num_classes, device);
}

namespace {

// Merges into each bin those above it from which on less is shown.
std::vector<AnswerBin> rising(const std::vector<AnswerBin>& bins) {
  AnswerRate rate = answer_rate(bins, 0);
  double best = -1;
  std::vector<AnswerBin> steps;
  for (const AnswerBin& bin : bins) {
    if (bin.images == 0) continue;
    if (const double shown = rate.interval().low; shown > best) {
      best = shown;
      steps.push_back({bin.from});
    }
    steps.back().images += bin.images;
    steps.back().right += bin.right;
    rate.answered -= bin.images;
    rate.right -= bin.right;
  }
  return steps;
}

}  // namespace

LabelCalibration calibrated(std::span<const LabelAnswer> ranked) {
  LabelCalibration result;
  // The softmax of the logits 0 and x is the sigmoid of x.
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  for (const LabelAnswer& answer : ranked) {
    logits.insert(logits.end(), {0, answer.logit});
    labels.push_back(answer.is_there ? 1 : 0);
  }
  // Images of one kind alone would be fitted best by answers that are always sure.
  if (const auto there = std::ranges::count(labels, 1); there > 0 && there < std::ssize(labels))
    result.temperature = fit_temperature({logits, labels, 2});
  if (const std::size_t chosen = best_by_f1(ranked); chosen > 0) {
    const double last = ranked[chosen - 1].logit;
    const double next = chosen < ranked.size() ? ranked[chosen].logit : last - 1;
    result.threshold = result.probability((last + next) / 2);
  }
  std::vector<AnswerBin> bins = empty_answer_bins();
  for (const LabelAnswer& answer : ranked)
    count_answer(result.probability(answer.logit), answer.is_there, bins);
  result.answers = rising(bins);
  return result;
}

}  // namespace kiln
