#include "record/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace kiln {
namespace {

double share_of(double part, std::int64_t whole) {
  return whole > 0 ? part / static_cast<double>(whole) : std::numeric_limits<double>::quiet_NaN();
}

// Orders more confident images first, and equally confident ones by index.
bool is_worse(const WrongImage& a, const WrongImage& b) {
  return std::tuple(-a.confidence, a.image) < std::tuple(-b.confidence, b.image);
}

}  // namespace

double CalibrationBin::mean_confidence() const {
  return share_of(confidence_sum, images);
}

double CalibrationBin::accuracy() const {
  return share_of(static_cast<double>(right), images);
}

Evaluation::Evaluation(int num_classes, int k, std::size_t most_wrong)
    : k_(std::min(k, num_classes)),
      most_wrong_(most_wrong),
      classes_(static_cast<std::size_t>(num_classes)),
      confusion_{num_classes, {}},
      answers_(empty_answer_bins()),
      calibration_{} {
  for (std::size_t label = 0; label < classes_.size(); ++label)
    classes_[label].label = static_cast<int>(label);
  if (classes_.size() <= kMaxConfusionClasses)
    confusion_.counts.assign(classes_.size() * classes_.size(), 0);
}

void Evaluation::add(const PredictedImage& image) {
  const auto truth = static_cast<std::size_t>(image.truth);
  const auto k = static_cast<std::size_t>(k_);
  if (image.probabilities.size() != classes_.size() ||
      image.top.size() < std::max<std::size_t>(k, 1))
    throw InternalError("Evaluation::add: too few classes");
  const auto guess = static_cast<std::size_t>(image.top.front());
  if (truth >= classes_.size() || guess >= classes_.size())
    throw InternalError("Evaluation::add: a class out of range");
  const bool is_right = truth == guess;
  const double confidence = image.probabilities[guess];
  const auto first_k = image.top.first(k);
  totals_.count += 1;
  totals_.top1 += is_right ? 1 : 0;
  totals_.top5 += std::find(first_k.begin(), first_k.end(), image.truth) != first_k.end() ? 1 : 0;
  totals_.loss_sum -=
      std::log(std::max(image.probabilities[truth], std::numeric_limits<float>::min()));
  classes_[truth].images += 1;
  classes_[guess].guesses += 1;
  classes_[truth].hits += is_right ? 1 : 0;
  if (!confusion_.empty()) confusion_.counts[truth * classes_.size() + guess] += 1;
  count_answer(confidence, is_right, answers_);
  const int bin = static_cast<int>(std::ceil(confidence * kNumCalibrationBins)) - 1;
  CalibrationBin& calibration =
      calibration_[static_cast<std::size_t>(std::clamp(bin, 0, kNumCalibrationBins - 1))];
  calibration.images += 1;
  calibration.right += is_right ? 1 : 0;
  calibration.confidence_sum += confidence;
  if (!is_right) note_wrong({image.image, image.truth, image.top.front(), confidence});
}

void Evaluation::note_wrong(const WrongImage& image) {
  wrong_.push_back(image);
  std::push_heap(wrong_.begin(), wrong_.end(), is_worse);
  if (wrong_.size() <= most_wrong_) return;
  std::pop_heap(wrong_.begin(), wrong_.end(), is_worse);
  wrong_.pop_back();
}

std::vector<WrongImage> Evaluation::most_confidently_wrong() const {
  std::vector<WrongImage> sorted = wrong_;
  std::sort(sorted.begin(), sorted.end(), is_worse);
  return sorted;
}

double macro_recall(std::span<const ClassScore> classes) {
  double sum = 0;
  int count = 0;
  for (const ClassScore& score : classes) {
    if (score.images == 0) continue;
    sum += score.recall();
    ++count;
  }
  return share_of(sum, count);
}

double macro_f1(std::span<const ClassScore> classes) {
  double sum = 0;
  int count = 0;
  for (const ClassScore& score : classes) {
    if (score.images + score.guesses == 0) continue;
    sum += score.f1();
    ++count;
  }
  return share_of(sum, count);
}

double expected_calibration_error(std::span<const CalibrationBin> bins) {
  std::int64_t images = 0;
  double error = 0;  // sum over the bins of images * |accuracy - mean confidence|
  for (const CalibrationBin& bin : bins) {
    images += bin.images;
    error += std::abs(static_cast<double>(bin.right) - bin.confidence_sum);
  }
  return share_of(error, images);
}

double AnswerRate::share() const {
  return share_of(static_cast<double>(answered), images);
}

double AnswerRate::accuracy() const {
  return share_of(static_cast<double>(right), answered);
}

Interval AnswerRate::interval() const {
  return wilson_interval(right, answered);
}

AnswerRate answer_rate(std::span<const AnswerBin> bins, double threshold) {
  AnswerRate rate{threshold};
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    rate.images += bin->images;
    if (bin->from < threshold) continue;
    rate.threshold = bin->from;
    rate.answered += bin->images;
    rate.right += bin->right;
  }
  return rate;
}

std::optional<AnswerRate> answer_rate_for(std::span<const AnswerBin> bins, double accuracy) {
  AnswerRate rate{.images = answer_rate(bins, 0).images};
  std::optional<AnswerRate> best;
  for (auto bin = bins.rbegin(); bin != bins.rend(); ++bin) {
    rate.threshold = bin->from;
    rate.answered += bin->images;
    rate.right += bin->right;
    if (bin->images > 0 && rate.accuracy() >= accuracy) best = rate;
  }
  return best;
}

void PairedAnswers::add(bool first_is_right, bool second_is_right) {
  if (first_is_right && second_is_right) ++both;
  if (first_is_right && !second_is_right) ++only_first;
  if (!first_is_right && second_is_right) ++only_second;
  if (!first_is_right && !second_is_right) ++neither;
}

McNemarTest mcnemar_test(const PairedAnswers& answers) {
  constexpr std::int64_t kFew = 25;
  const std::int64_t differing = answers.only_first + answers.only_second;
  const auto n = static_cast<double>(differing);
  if (differing >= kFew) {
    const auto distance = static_cast<double>(std::abs(answers.only_first - answers.only_second));
    const double statistic = std::pow(std::max(0.0, distance - 1), 2) / n;
    return {false, statistic, std::erfc(std::sqrt(statistic / 2))};
  }
  double tail = 0, binomial = 1;  // `binomial`: n choose i
  for (std::int64_t i = 0; i <= std::min(answers.only_first, answers.only_second); ++i) {
    tail += binomial;
    binomial *= (n - static_cast<double>(i)) / static_cast<double>(i + 1);
  }
  return {true, 0, std::min(1.0, 2 * tail / std::pow(2.0, n))};
}

}  // namespace kiln
