// Which of a model's answers are told, and which deserve a look.
#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "record/evaluation.h"
#include "tools/score/score.h"

namespace kiln {

double answer_threshold(std::optional<double> min_confidence, std::optional<double> answer_at,
                        const Calibration& calibration) {
  // Rounded to float, like the confidences that users read in the output and pass back here.
  if (!answer_at) return static_cast<float>(min_confidence.value_or(0));
  if (const auto rate = answer_rate_for(calibration.answers, *answer_at)) return rate->threshold;
  const std::string wanted = formatted("--answer-at %g%%: ", 100 * *answer_at);
  throw Error(ErrorCode::kUserError,
              wanted + (calibration.answers.empty()
                            ? "the model has no record of its validation accuracy "
                              "(calibration.json). Use --min-confidence."
                            : "the model did not reach this accuracy on validation at any "
                              "confidence. Use a lower value, or --min-confidence."));
}

LabelRule::LabelRule(std::optional<double> min_confidence, std::optional<double> answer_at,
                     const Calibration& calibration) {
  for (const LabelCalibration& label : calibration.labels) {
    const auto rate = answer_rate_for(label.answers, answer_at.value_or(0));
    thresholds_.push_back(min_confidence ? *min_confidence
                          : !answer_at   ? label.threshold
                          : rate         ? rate->threshold
                                         : 2);
  }
}

std::vector<int> LabelRule::told(std::span<const float> probabilities) const {
  std::vector<int> ids;
  for (std::size_t c = 0; c < thresholds_.size(); ++c)
    if (probabilities[c] >= static_cast<float>(thresholds_[c])) ids.push_back(static_cast<int>(c));
  return ids;
}

std::size_t LabelRule::num_silent() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(thresholds_, [](double threshold) { return threshold > 1; }));
}

void NotableAnswers::see(std::size_t image, const Score& score, bool is_wrong) {
  if (score.best.empty()) return;
  const NotableAnswer answer{image, score.path, score.best.front()};
  const auto confidence = [](const NotableAnswer& one) { return one.best.confidence; };
  // Of equal answers the one seen first comes first.
  const auto keep = [&](std::vector<NotableAnswer>& answers, std::size_t most, const auto& order) {
    answers.insert(std::ranges::upper_bound(answers, confidence(answer), order, confidence),
                   answer);
    if (answers.size() > most) answers.pop_back();
  };
  if (score.is_unsure || !unsure_alone_) keep(doubtful_, unsure_alone_ ? 76 : 24, std::less{});
  if (is_wrong) keep(wrong_, 24, std::greater{});
}

std::vector<NotableAnswer> NotableAnswers::all() const {
  std::vector<NotableAnswer> answers = doubtful_;
  for (const NotableAnswer& answer : wrong_)
    if (std::ranges::find(doubtful_, answer.image, &NotableAnswer::image) == doubtful_.end())
      answers.push_back(answer);
  return answers;
}

}  // namespace kiln
