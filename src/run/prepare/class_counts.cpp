#include "run/prepare/class_counts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "record/evaluation.h"
#include "record/run_summary.h"

namespace kiln {

std::vector<double> class_counts(const std::vector<Prediction>& predictions,
                                 std::size_t num_classes) {
  std::vector<double> counts(3 * num_classes);
  for (const Prediction& prediction : predictions) {
    const auto truth = static_cast<std::size_t>(prediction.label);
    const auto guess = static_cast<std::size_t>(prediction.predicted);
    counts[3 * truth] += 1;
    counts[3 * guess + 1] += 1;
    if (truth == guess) counts[3 * truth + 2] += 1;
  }
  return counts;
}

MacroScores macro_scores(std::span<const double> counts) {
  std::vector<ClassScore> scores;
  scores.reserve(counts.size() / 3);
  for (std::size_t i = 0; i + 2 < counts.size(); i += 3)
    scores.push_back({static_cast<int>(i / 3), static_cast<std::int64_t>(counts[i]),
                      static_cast<std::int64_t>(counts[i + 1]),
                      static_cast<std::int64_t>(counts[i + 2])});
  return {macro_recall(scores), macro_f1(scores)};
}

std::vector<long long> counts_of_all(World& world, const Dataset& set, std::size_t num_classes,
                                     const Shard* shard) {
  std::vector<long long> counts = counts_by_class(set, num_classes);
  if (shard == nullptr) return counts;
  std::vector<double> mine(counts.begin(), counts.end());
  if (shard->rank > 0) std::fill(mine.begin(), mine.end(), 0.0);
  const std::vector<double> all = world.sum(mine);
  std::transform(all.begin(), all.end(), counts.begin(),
                 [](double sum) { return static_cast<long long>(sum); });
  return counts;
}

std::vector<double> weights_of_classes(ClassWeights choice, const std::vector<long long>& counts) {
  if (choice == ClassWeights::kNone) return {};
  double images = 0, num_classes = 0, sum = 0;
  for (const long long count : counts) {
    images += static_cast<double>(count);
    num_classes += count > 0 ? 1 : 0;
  }
  std::vector<double> weights(counts.size(), 1);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const auto count = static_cast<double>(counts[i]);
    weights[i] = images / (num_classes * count);
    if (choice == ClassWeights::kSqrt) weights[i] = std::sqrt(weights[i]);
    sum += weights[i] * count;
  }
  if (choice == ClassWeights::kBalanced) return weights;  // their mean over all images is 1
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) weights[i] *= images / sum;
  return weights;
}

}  // namespace kiln
