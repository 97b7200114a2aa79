#include "train/temperature.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace kiln {
namespace {

constexpr double kMostLogits = 1 << 24;

std::span<const float> row(const LabeledLogits& images, std::size_t i) {
  const auto width = static_cast<std::size_t>(images.num_classes);
  return images.logits.subspan(i * width, width);
}

std::size_t most_likely(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The number of images, of those whose logits are not finite, and of those that are misclassified
// at any temperature, however low: another class has a higher logit.
std::array<double, 3> counts_of(const LabeledLogits& images) {
  std::array<double, 3> counts{};
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const std::span<const float> logits = row(images, i);
    const bool finite =
        std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); });
    const float of_label = logits[static_cast<std::size_t>(images.labels[i])];
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
    slope += mean - (logits[static_cast<std::size_t>(images.labels[i])] - highest);
    curvature += second / weight - mean * mean;
  }
  return {slope, curvature, 0};
}

// One step of Newton's method, or the geometric mean of the bracket if the step would leave it.
double next_factor(double factor, const std::array<double, 3>& at, double low, double high) {
  const double newton = factor - at[0] / at[1];
  return newton > low && newton < high ? newton : std::sqrt(low * high);
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
  constexpr int kMostSteps = 60;
  constexpr double kTolerance = 1e-6;
  double low = 1 / kHighestTemperature, high = 1 / kLowestTemperature, factor = 1;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::array<double, 3> at = over_ranks(derivatives(images, factor));
    (at[0] > 0 ? high : low) = factor;
    const double next = next_factor(factor, at, low, high);
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
    : share_(std::min(1.0, kMostLogits / (static_cast<double>(num_images) * num_classes))) {}

bool CalibrationSample::holds(std::uint64_t image) const {
  constexpr std::uint64_t kPurpose = 0x74656d7065726174;  // "temperat"
  return share_ >= 1 || RandomSequence({kPurpose, image}).uniform() < share_;
}

}  // namespace kiln
