#include "tools/score/answer_threshold.h"

#include <string>

#include "base/error.h"
#include "base/text.h"
#include "record/evaluation.h"

namespace kiln {

double answer_threshold(const ScoreConfig& config, const Calibration& calibration) {
  // Rounded to float, like the confidences that users read in the output and pass back here.
  if (!config.answer_at) return static_cast<float>(config.min_confidence.value_or(0));
  if (const auto rate = answer_rate_for(calibration.answers, *config.answer_at))
    return rate->threshold;
  const std::string wanted = formatted("--answer-at %g%%: ", 100 * *config.answer_at);
  throw Error(ErrorCode::kUserError,
              wanted + (calibration.answers.empty()
                            ? "the model has no record of its validation accuracy "
                              "(calibration.json). Use --min-confidence."
                            : "the model did not reach this accuracy on validation at any "
                              "confidence. Use a lower value, or --min-confidence."));
}

void log_answer_threshold(const ScoreConfig& config, const Calibration& calibration, Log& log) {
  if (!config.answer_at) return;
  const double threshold = answer_threshold(config, calibration);
  const AnswerRate rate = answer_rate(calibration.answers, threshold);
  const Interval interval = rate.interval();
  log.info(
      formatted("answers:   with confidence %.3f or higher; on validation this answered %.1f %% of "
                "the images, %.1f %% of them correctly (95 %% interval %.1f to %.1f %%)",
                threshold, 100 * rate.share(), 100 * rate.accuracy(), 100 * interval.low,
                100 * interval.high));
  if (!rate.can_be_promised())
    log.warning(
        formatted("%g %% is not reliable: validation had only %lld answers, but %lld are needed.",
                  100 * *config.answer_at, static_cast<long long>(rate.answered),
                  static_cast<long long>(AnswerRate::kLeastAnswers)));
}

}  // namespace kiln
