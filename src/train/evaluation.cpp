#include "train/evaluation.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorOptions.h>
#include <algorithm>
#include <limits>
#include <utility>

#include "train/loss.h"
#include "train/precision.h"

namespace kiln {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

}  // namespace

MetricSums::MetricSums(const at::Device& device)
    : sums_(at::zeros({3}, at::dtype(at::kDouble).device(device))),
      batch_sums_(at::zeros({3}, at::dtype(at::kDouble).device(device))),
      first_nonfinite_step_(at::full({1}, kNever, at::dtype(at::kDouble).device(device))) {}

void MetricSums::add(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& loss_sum,
                     int step) {
  const at::NoGradGuard no_grad;
  const std::int64_t k = std::min<std::int64_t>(5, logits.size(1));
  const at::Tensor ranked = std::get<1>(logits.topk(k, 1));  // [N, k]
  const at::Tensor hits = ranked.eq(labels.unsqueeze(1));    // [N, k]
  const at::Tensor top1 = hits.select(1, 0).sum().to(at::kDouble);
  const at::Tensor top5 = hits.sum().to(at::kDouble);
  const at::Tensor loss = loss_sum.detach().to(at::kDouble);
  batch_sums_ = at::stack({loss, top1, top5});
  sums_.add_(batch_sums_);
  batch_count_ = labels.size(0);
  count_ += batch_count_;
  const at::Tensor bad = at::isfinite(loss).logical_not();
  first_nonfinite_step_ =
      at::where(bad, first_nonfinite_step_.clamp_max(step), first_nonfinite_step_);
}

MetricSums::Values MetricSums::read() const {
  const at::Tensor host = at::cat({batch_sums_, sums_, first_nonfinite_step_}).cpu();
  const double* values = host.const_data_ptr<double>();
  const auto totals = [](const double* of, std::int64_t count) {
    return Totals{of[0], static_cast<std::int64_t>(of[1]), static_cast<std::int64_t>(of[2]), count};
  };
  const auto step = static_cast<int>(values[6]);
  return {totals(values, batch_count_), totals(values + 3, count_), step == kNever ? 0 : step};
}

void MetricSums::set(const Totals& totals) {
  const auto options = at::dtype(at::kDouble);
  sums_.copy_(at::tensor(
      {totals.loss_sum, static_cast<double>(totals.top1), static_cast<double>(totals.top5)},
      options));
  count_ = totals.count;
}

Evaluator::Evaluator(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader,
                     Precision precision, const CalibrationSample& sample)
    : model_(model),
      loader_(loader),
      uploader_(uploader),
      precision_(precision),
      metrics_(uploader.device()),
      sample_(sample) {
  model_.train(false);
}

bool Evaluator::step() {
  const at::InferenceMode inference;
  const HostBatch* host = loader_.next();
  if (host == nullptr) return false;
  ++steps_;
  if (host->count == 0) return true;
  const DeviceBatch batch = uploader_.upload(*host);
  const at::Tensor logits = forward(model_, batch.images, precision_);
  metrics_.add(logits, batch.labels, reported_loss(logits, batch.labels), steps_);
  for (std::size_t i = 0; i < host->labels.size(); ++i)
    predictions_.push_back({host->samples[i], static_cast<std::int32_t>(host->labels[i]), 0, 0});
  const auto [confidence, predicted] = logits.softmax(1, at::kFloat).max(1);
  confidences_.push_back(confidence);
  predicted_.push_back(predicted.to(at::kInt));
  keep_logits(logits, *host);
  return true;
}

void Evaluator::keep_logits(const at::Tensor& logits, const HostBatch& batch) {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (!sample_.holds(batch.samples[i])) continue;
    rows.push_back(static_cast<std::int64_t>(i));
    labels_.push_back(static_cast<std::int32_t>(batch.labels[i]));
  }
  if (rows.empty()) return;
  const at::Tensor kept = rows.size() == batch.labels.size()
                              ? logits
                              : logits.index_select(0, at::tensor(rows).to(logits.device()));
  logits_.push_back(kept.to(at::kFloat));
}

HostLogits Evaluator::take_logits() {
  if (logits_.empty()) return {};
  at::Tensor all = at::cat(std::exchange(logits_, {})).cpu().contiguous();
  return {std::move(all), std::move(labels_)};
}

LabeledLogits HostLogits::view() const {
  if (labels.empty()) return {};
  return {{logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())},
          labels,
          static_cast<int>(logits.size(1))};
}

std::vector<Prediction> Evaluator::take_predictions() {
  if (predictions_.empty()) return {};
  const at::Tensor confidences = at::cat(confidences_).cpu();
  const at::Tensor predicted = at::cat(predicted_).cpu();
  for (std::size_t i = 0; i < predictions_.size(); ++i) {
    predictions_[i].confidence = confidences.const_data_ptr<float>()[i];
    predictions_[i].predicted = predicted.const_data_ptr<std::int32_t>()[i];
  }
  return std::move(predictions_);
}

}  // namespace kiln
