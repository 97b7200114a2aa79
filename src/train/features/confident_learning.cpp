#include "train/features/confident_learning.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace kiln {
namespace {

// Smaller differences between probabilities are considered rounding errors.
constexpr double kTiny = 1e-6;

std::size_t index_of(std::int32_t label) {
  return static_cast<std::size_t>(label);
}

std::vector<double> mean_self_confidence(const JudgedLabels& judged) {
  std::vector<double> sums(judged.num_classes), counts(judged.num_classes);
  for (std::size_t i = 0; i < judged.labels.size(); ++i) {
    sums[index_of(judged.labels[i])] += judged.self_confidence(i);
    counts[index_of(judged.labels[i])] += 1;
  }
  for (std::size_t c = 0; c < sums.size(); ++c)
    // The threshold of a class without images is infinite, so that no image counts for it.
    sums[c] = counts[c] > 0 ? std::max(sums[c] / counts[c], 2 * kTiny)
                            : std::numeric_limits<double>::infinity();
  return sums;
}

// Returns the class that image `i` counts for, as estimate_label_noise() defines it; -1 if none.
std::int32_t confident_class(const JudgedLabels& judged, std::size_t i,
                             const std::vector<double>& thresholds) {
  const std::span<const float> row = judged.row(i);
  std::int32_t found = -1;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (static_cast<double>(row[c]) < thresholds[c] - kTiny) continue;
    if (found >= 0) return judged.best(i);
    found = static_cast<std::int32_t>(c);
  }
  return found;
}

// Rounds the values to whole numbers without changing their (rounded) sum: where the sum would be
// off, adjusts the values with the largest rounding errors.
void round_keeping_sum(std::span<double> values) {
  std::vector<double> whole;
  for (const double value : values) whole.push_back(std::nearbyint(value));
  const double wanted = std::nearbyint(std::accumulate(values.begin(), values.end(), 0.0));
  std::vector<std::size_t> order(values.size());
  for (;;) {
    const double excess = std::accumulate(whole.begin(), whole.end(), 0.0) - wanted;
    if (std::abs(excess) < 0.5) break;
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i] - whole[i]; });
    if (excess < 0) std::ranges::reverse(order);
    const auto changes = std::min(static_cast<std::size_t>(std::abs(excess)), order.size());
    for (std::size_t i = 0; i < changes; ++i) whole[order[i]] -= excess < 0 ? -1 : 1;
  }
  std::copy(whole.begin(), whole.end(), values.begin());
}

// Scales `counts`, [given * C + true], so that each row adds up to the number of images with that
// label, and rounds them.
std::vector<double> calibrated(std::vector<double> counts, const std::vector<double>& images) {
  const std::size_t num_classes = images.size();
  const auto row_of = [&](std::size_t c) {
    return std::span(counts).subspan(c * num_classes, num_classes);
  };
  double total = 0, num_images = 0;
  for (std::size_t c = 0; c < num_classes; ++c) {
    const std::span<double> row = row_of(c);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (double& count : row) count = count / sum * images[c];
    total += std::accumulate(row.begin(), row.end(), 0.0);
    num_images += images[c];
  }
  if (total > 0)
    for (double& count : counts) count = count / total * num_images;
  for (std::size_t c = 0; c < num_classes; ++c) round_keeping_sum(row_of(c));
  return counts;
}

// Returns how many images with the label `given` to doubt in favor of each class. At least one is
// assumed to be labeled correctly: if the estimate leaves none, each number is reduced by an equal
// share of that one, rounded up to a whole image, which is one.
std::vector<std::int64_t> numbers_to_doubt(const LabelNoise& noise, std::size_t given) {
  std::vector<std::int64_t> numbers;
  for (std::size_t truth = 0; truth < noise.num_classes; ++truth)
    numbers.push_back(truth == given ? 0 : noise.at(given, truth));
  if (noise.at(given, given) > 0) return numbers;
  for (std::int64_t& number : numbers) number = std::max<std::int64_t>(number - 1, 0);
  return numbers;
}

// True if the label is as probable as the most probable class, up to rounding errors.
bool agrees(const JudgedLabels& judged, std::size_t i) {
  const std::span<const float> row = judged.row(i);
  const auto label = index_of(judged.labels[i]);
  const double own = static_cast<double>(row[label]) + kTiny;
  for (std::size_t c = 0; c < row.size(); ++c)
    if (c != label && (c < label ? row[c] >= own : row[c] > own)) return false;
  return true;
}

}  // namespace

std::int32_t JudgedLabels::best(std::size_t i) const {
  const std::span<const float> all = row(i);
  return static_cast<std::int32_t>(std::ranges::max_element(all) - all.begin());
}

std::int64_t JudgedLabels::num_agreed() const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) count += best(i) == labels[i] ? 1 : 0;
  return count;
}

std::int64_t LabelNoise::images(std::size_t label) const {
  const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(label * num_classes);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(num_classes), std::int64_t{0});
}

std::int64_t LabelNoise::missing(std::size_t label) const {
  std::int64_t sum = 0;
  for (std::size_t given = 0; given < num_classes; ++given)
    if (given != label) sum += at(given, label);
  return sum;
}

LabelNoise estimate_label_noise(const JudgedLabels& judged) {
  const std::size_t num_classes = judged.num_classes;
  LabelNoise noise{num_classes, mean_self_confidence(judged), {}};
  std::vector<double> counts(num_classes * num_classes), images(num_classes);
  for (std::size_t i = 0; i < judged.labels.size(); ++i) {
    const auto label = index_of(judged.labels[i]);
    images[label] += 1;
    const std::int32_t truth = confident_class(judged, i, noise.thresholds);
    if (truth >= 0) counts[label * num_classes + index_of(truth)] += 1;
  }
  // At least one image of every class is assumed to be labeled correctly, so that no row adds up to
  // 0 and every row can be scaled.
  for (std::size_t c = 0; c < num_classes; ++c)
    counts[c * num_classes + c] = std::max(counts[c * num_classes + c], 1.0);
  for (const double count : calibrated(std::move(counts), images))
    noise.counts.push_back(static_cast<std::int64_t>(count));
  return noise;
}

std::vector<std::uint32_t> probably_wrong(const JudgedLabels& judged, const LabelNoise& noise) {
  const std::size_t num_classes = judged.num_classes;
  std::vector<bool> is_doubtful(judged.labels.size());
  // For each class, the images with this label, in ascending order.
  std::vector<std::vector<std::uint32_t>> by_label(num_classes);
  for (std::size_t i = 0; i < judged.labels.size(); ++i)
    by_label[index_of(judged.labels[i])].push_back(static_cast<std::uint32_t>(i));
  for (std::size_t given = 0; given < num_classes; ++given) {
    if (by_label[given].size() < 2) continue;
    const std::vector<std::int64_t> numbers = numbers_to_doubt(noise, given);
    for (std::size_t truth = 0; truth < num_classes; ++truth) {
      if (numbers[truth] == 0) continue;
      const auto margin = [&](std::uint32_t i) {
        return judged.row(i)[truth] - judged.row(i)[given];
      };
      std::vector<std::uint32_t> images = by_label[given];
      std::ranges::stable_sort(images, std::greater{}, margin);
      const auto count = std::min(static_cast<std::size_t>(numbers[truth]), images.size());
      for (std::size_t i = 0; i < count; ++i) is_doubtful[images[i]] = true;
    }
  }
  std::vector<std::uint32_t> doubtful;
  for (std::uint32_t i = 0; i < is_doubtful.size(); ++i)
    if (is_doubtful[i] && !agrees(judged, i)) doubtful.push_back(i);
  std::ranges::stable_sort(doubtful, {},
                           [&](std::uint32_t i) { return judged.self_confidence(i); });
  return doubtful;
}

}  // namespace kiln
