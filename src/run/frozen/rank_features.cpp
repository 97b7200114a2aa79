#include "run/frozen/rank_features.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "predict/explanations.h"
#include "train/features/confident_learning.h"
#include "train/loss.h"

namespace kiln {
namespace {

constexpr std::int64_t kPieceBytes = 8 << 20;  // sent by each rank at a time

// The bytes of rows [begin, end), or fewer if `rows` ends earlier.
std::string bytes_of(const at::Tensor& rows, std::int64_t begin, std::int64_t end) {
  if (!rows.defined() || begin >= rows.size(0)) return {};
  const at::Tensor part = rows.narrow(0, begin, std::min(end, rows.size(0)) - begin).contiguous();
  return {static_cast<const char*>(part.const_data_ptr()), part.nbytes()};
}

// Gathers the rows of all ranks on rank 0, in rank order. They are sent in pieces, to keep messages
// small.
at::Tensor gathered_rows(World& world, const at::Tensor& mine, std::int64_t width) {
  const std::vector<std::int64_t> counts = world.gather(mine.defined() ? mine.size(0) : 0);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t longest = *std::max_element(counts.begin(), counts.end());
  at::Tensor all;
  if (world.leads()) all = at::empty({total, width});
  const std::int64_t piece =
      std::max<std::int64_t>(1, kPieceBytes / (width * static_cast<std::int64_t>(sizeof(float))));
  for (std::int64_t begin = 0; begin < longest; begin += piece) {
    const std::vector<std::string> parts = world.gather(bytes_of(mine, begin, begin + piece));
    std::int64_t first = begin;  // row where the rank's piece goes
    for (std::size_t rank = 0; world.leads() && rank < parts.size(); ++rank) {
      if (!parts[rank].empty())
        std::memcpy(all.data_ptr<float>() + first * width, parts[rank].data(), parts[rank].size());
      first += counts[rank];
    }
  }
  return all;
}

constexpr std::size_t kMostDoubtful = 200, kMostDoubtfulShown = 24;  // in the record

at::Tensor as_tensor(const std::vector<std::int32_t>& labels) {
  return at::tensor(std::vector<std::int64_t>(labels.begin(), labels.end()), at::kLong);
}

}  // namespace

LabeledFeatures gathered(World& world, LabeledFeatures mine) {
  if (world.size() == 1) return mine;
  const std::vector<std::int64_t> widths =
      world.gather(mine.rows.defined() ? mine.rows.size(1) : 0);
  const std::int64_t width = *std::max_element(widths.begin(), widths.end());
  const auto labels = world.gather(mine.labels);
  const auto samples = world.gather(mine.samples);
  if (width == 0) return {};
  const at::Tensor rows = gathered_rows(world, mine.rows, width);
  if (!world.leads()) return {};
  LabeledFeatures unordered, all;
  for (std::size_t rank = 0; rank < labels.size(); ++rank) {
    unordered.labels.insert(unordered.labels.end(), labels[rank].begin(), labels[rank].end());
    unordered.samples.insert(unordered.samples.end(), samples[rank].begin(), samples[rank].end());
  }
  std::vector<std::int64_t> order(unordered.samples.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t one, std::int64_t other) {
    return unordered.samples[static_cast<std::size_t>(one)] <
           unordered.samples[static_cast<std::size_t>(other)];
  });
  for (const std::int64_t i : order) {
    all.labels.push_back(unordered.labels[static_cast<std::size_t>(i)]);
    all.samples.push_back(unordered.samples[static_cast<std::size_t>(i)]);
  }
  all.rows = rows.index_select(0, at::tensor(order));
  return all;
}

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

std::vector<JudgedImage> doubtful_images(const Sources& sources, const TransformSpec& pixels,
                                         const at::Tensor& logits, const LabeledFeatures& images) {
  const std::size_t num_classes = sources.train.classes.size();
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
    doubtful.push_back({std::string(sources.train.samples.file_name(sample)), images.labels[row],
                        best, judged.row(row)[static_cast<std::size_t>(best)],
                        doubtful.size() < kMostDoubtfulShown
                            ? thumbnail_of(sources.train, sample, pixels)
                            : Thumbnail()});
    if (doubtful.size() == kMostDoubtful) break;
  }
  return doubtful;
}

}  // namespace kiln
