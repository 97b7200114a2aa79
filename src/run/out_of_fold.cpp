#include "run/out_of_fold.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "predict/explanations.h"
#include "train/features/confident_learning.h"
#include "train/loss.h"

namespace kiln {
namespace {

constexpr std::size_t kMostDoubtful = 200, kMostDoubtfulShown = 24;  // in the record

at::Tensor as_tensor(const std::vector<std::int32_t>& labels) {
  return at::tensor(std::vector<std::int64_t>(labels.begin(), labels.end()), at::kLong);
}

}  // namespace

void require_folds(const Folds& folds, int asked) {
  if (folds.count >= asked) return;
  throw Error(ErrorCode::kInvalidDataset,
              formatted("--folds is %d, but the training images form only %d independent groups: "
                        "use fewer folds, or more images or groups.",
                        asked, std::max(1, folds.count)));
}

Totals totals_of(const at::Tensor& logits, const std::vector<std::int32_t>& labels) {
  MetricSums sums{at::Device(at::kCPU)};
  const at::Tensor truth = as_tensor(labels);
  sums.add(logits, truth, reported_loss(logits, truth), 1);
  return sums.totals();
}

std::vector<Prediction> predictions_of(const at::Tensor& logits, const LabeledFeatures& images) {
  const auto [confidences, guesses] = logits.softmax(1).max(1);
  std::vector<Prediction> predictions;
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    predictions.push_back({images.samples[i], images.labels[i],
                           static_cast<std::int32_t>(guesses[row].item<std::int64_t>()),
                           confidences[row].item<float>()});
  }
  return predictions;
}

std::vector<JudgedImage> doubtful_images(const TrainingInputs& inputs, const at::Tensor& logits,
                                         const LabeledFeatures& images) {
  const std::size_t num_classes = inputs.train.classes.size();
  if (num_classes > kMaxConfusionClasses) return {};
  const at::Tensor probabilities = logits.softmax(1).contiguous();
  const JudgedLabels judged{
      {probabilities.const_data_ptr<float>(), static_cast<std::size_t>(probabilities.numel())},
      images.labels,
      num_classes};
  if (!can_judge_labels(judged.num_agreed(), static_cast<std::int64_t>(images.labels.size())))
    return {};
  std::vector<JudgedImage> doubtful;
  for (const std::uint32_t row : probably_wrong(judged, estimate_label_noise(judged))) {
    const std::uint32_t sample = images.samples[row];
    const std::int32_t best = judged.best(row);
    doubtful.push_back({std::string(inputs.train.samples.file_name(sample)), images.labels[row],
                        best, judged.row(row)[static_cast<std::size_t>(best)],
                        doubtful.size() < kMostDoubtfulShown
                            ? thumbnail_of(inputs.train, sample, inputs.valid_pixels)
                            : Thumbnail()});
    if (doubtful.size() == kMostDoubtful) break;
  }
  return doubtful;
}

}  // namespace kiln
