#include "train/evaluation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "train/loss.h"
#include "train/precision.h"

namespace kiln {
namespace {

constexpr double kMaxLogits = 1 << 24;
constexpr int kNever = std::numeric_limits<int>::max();  // a step

std::span<const float> row(const LabeledLogits& images, std::size_t i) {
  const auto width = static_cast<std::size_t>(images.num_classes);
  return images.logits.subspan(i * width, width);
}

std::size_t most_likely(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

// The number of images, of those whose logits are not finite, and of those that are misclassified
// at any temperature, however low: another class has a higher logit.
std::array<double, 3> counts_of(const LabeledLogits& images) {
  std::array<double, 3> counts{};
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::span<const float> logits = row(images, i);
    const bool finite =
        std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
    const float of_label = logits[images.labels[i]];
    counts[0] += 1;
    counts[1] += finite ? 0 : 1;
    counts[2] += logits[most_likely(logits)] > of_label ? 1 : 0;
  }
  return counts;
}

// Sums over the images of the first and second derivative of the cross-entropy with respect to the
// factor 1 / temperature: the mean of the logits under the softmax minus the logit of the label,
// and the variance of the logits.
std::array<double, 3> derivatives(const LabeledLogits& images, double factor) {
  double slope = 0, curvature = 0;
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::span<const float> logits = row(images, i);
    const float highest = logits[most_likely(logits)];
    const auto scale = static_cast<float>(factor);
    double weight = 0, first = 0, second = 0;
    for (const float logit : logits) {
      const float distance = logit - highest;
      const double part = std::exp(scale * distance);
      weight += part;
      first += part * distance;
      second += part * distance * distance;
    }
    const double mean = first / weight;
    slope += mean - (logits[images.labels[i]] - highest);
    curvature += second / weight - mean * mean;
  }
  return {slope, curvature, 0};
}

}  // namespace

double fit_temperature(const LabeledLogits& images, const SumOfAllRanks& sum) {
  const auto over_ranks = [&](const std::array<double, 3>& mine) { return sum ? sum(mine) : mine; };
  const std::array<double, 3> counts = over_ranks(counts_of(images));
  if (counts[1] > 0)
    throw Error(ErrorCode::kFailedToCompleteOperation,
                "The outputs of the model for " +
                    std::to_string(static_cast<long long>(counts[1])) +
                    " validation images are not finite numbers. Lower --learning-rate.");
  if (counts[2] == 0) return 1;
  constexpr int kMaxSteps = 60;
  constexpr double kTolerance = 1e-6;
  double low = 1 / kHighestTemperature, high = 1 / kLowestTemperature, factor = 1;
  for (int step = 0; step < kMaxSteps; ++step) {
    const std::array<double, 3> at = over_ranks(derivatives(images, factor));
    (at[0] > 0 ? high : low) = factor;
    // One step of Newton's method, or the geometric mean of the bracket if the step would leave it.
    const double newton = factor - at[0] / at[1];
    const double next = newton > low && newton < high ? newton : std::sqrt(low * high);
    const bool is_found = std::abs(next - factor) <= kTolerance * factor;
    factor = next;
    if (is_found) break;
  }
  return 1 / factor;
}

void count_answers(const LabeledLogits& images, double temperature, std::vector<AnswerBin>& bins) {
  const auto factor = static_cast<float>(1 / temperature);
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::span<const float> logits = row(images, i);
    const std::size_t guess = most_likely(logits);
    double weight = 0;
    for (const float logit : logits) weight += std::exp(factor * (logit - logits[guess]));
    count_answer(1 / weight, guess == static_cast<std::size_t>(images.labels[i]), bins);
  }
}

CalibrationSample::CalibrationSample(std::uint64_t num_images, int num_classes)
    : share_(std::min(1.0, kMaxLogits / (static_cast<double>(num_images) * num_classes))) {}

bool CalibrationSample::holds(std::uint64_t image) const {
  constexpr std::uint64_t kPurpose = 0x74656d7065726174;  // "temperat"
  return share_ >= 1 || RandomSequence({kPurpose, image}).uniform() < share_;
}

MetricSums::MetricSums(const at::Device& device)
    : sums_(at::zeros({3}, at::dtype(at::kDouble).device(device))),
      batch_sums_(at::zeros({3}, at::dtype(at::kDouble).device(device))),
      first_nonfinite_step_(at::full({1}, kNever, at::dtype(at::kDouble).device(device))) {}

void MetricSums::add(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& loss_sum,
                     int step, const Task& task) {
  const at::NoGradGuard no_grad;
  const auto [top1, top5] = task.hits(logits, labels);
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
  sums_.copy_(at::tensor(
      {totals.loss_sum, static_cast<double>(totals.top1), static_cast<double>(totals.top5)},
      at::kDouble));
  count_ = totals.count;
}

Evaluator::Evaluator(ImageModel& model, BatchLoader& loader, DeviceUploader& uploader,
                     Precision precision, const CalibrationSample& sample, const Task& task)
    : model_(model),
      loader_(loader),
      uploader_(uploader),
      precision_(precision),
      task_(task),
      metrics_(uploader.device()),
      sample_(sample) {
  model_.train(false);
}

bool Evaluator::step() {
  const at::NoGradGuard no_grad;
  const HostBatch* host = loader_.next();
  if (host == nullptr) return false;
  ++steps_;
  if (host->count == 0) return true;
  const DeviceBatch batch = uploader_.upload(*host);
  const at::Tensor logits = forward(model_, batch.images, precision_);
  metrics_.add(logits, batch.labels, reported_loss(logits, batch.labels, task_), steps_, task_);
  for (std::size_t i = 0; i < host->labels.size(); ++i)
    predictions_.push_back({host->samples[i], static_cast<std::int32_t>(host->labels[i])});
  Answers answers = task_.answers(logits);
  shares_.push_back(std::move(answers.shares));
  classes_.push_back(std::move(answers.classes));
  std::vector<std::int64_t> rows;  // in the calibration sample
  for (std::size_t i = 0; i < host->labels.size(); ++i) {
    if (!sample_.holds(host->samples[i])) continue;
    rows.push_back(static_cast<std::int64_t>(i));
    labels_.push_back(static_cast<std::int32_t>(host->labels[i]));
  }
  if (rows.empty()) return true;
  const at::Tensor kept = rows.size() == host->labels.size()
                              ? logits
                              : logits.index_select(0, at::tensor(rows).to(logits.device()));
  logits_.push_back(kept.to(at::kFloat));
  return true;
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

void set_answers(const Answers& answers, std::span<Prediction> predictions) {
  const at::Tensor shares = answers.shares.cpu().contiguous();
  const at::Tensor classes = answers.classes.to(at::kCPU, at::kInt).contiguous();
  const auto width = static_cast<std::size_t>(shares.size(1));
  const auto* share = shares.const_data_ptr<float>();
  const auto* label = classes.const_data_ptr<std::int32_t>();
  for (Prediction& prediction : predictions) {
    prediction.predicted = label[0];
    prediction.confidence = share[0];
    std::copy_n(label + 1, width - 1, prediction.next.begin());
    std::copy_n(share + 1, width - 1, prediction.next_shares.begin());
    label += width;
    share += width;
  }
}

std::vector<Prediction> Evaluator::take_predictions() {
  if (!predictions_.empty()) set_answers({at::cat(shares_), at::cat(classes_)}, predictions_);
  return std::move(predictions_);
}

}  // namespace kiln
