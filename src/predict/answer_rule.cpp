#include "predict/answer_rule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "record/evaluation.h"

namespace kiln {
namespace {

Error unreached(double answer_at) {
  return {ErrorCode::kUserError,
          formatted("--answer-at %g%%: the validation images do not show this accuracy at any "
                    "confidence. Use a lower value, more of them, or --min-confidence.",
                    100 * answer_at)};
}

class OneLabel final : public AnswerRule {
 public:
  explicit OneLabel(Calibration calibration)
      : AnswerRule(false, {"top-1 accuracy", "a label", "image", "images",
                           ": an image of something else gets one of them."}),
        calibration_(std::move(calibration)) {}

  std::vector<double> thresholds(std::optional<double> min_confidence,
                                 std::optional<double> answer_at) const override {
    // Rounded to float, like the confidences that users read in the output and pass back here.
    if (!answer_at) return {static_cast<float>(min_confidence.value_or(0))};
    if (const auto rate = answer_rate_for(calibration_, *answer_at)) return {rate->threshold};
    if (!calibration_.answers.empty()) throw unreached(*answer_at);
    throw Error(ErrorCode::kUserError,
                formatted("--answer-at %g%%: the model has no record of its validation accuracy "
                          "(calibration.json). Use --min-confidence.",
                          100 * *answer_at));
  }
  void log_answers(double, const std::vector<double>& thresholds, Log& log) const override {
    const AnswerRate rate = answer_rate(calibration_, thresholds[0]);
    const Interval interval = rate.interval();
    log.info(formatted(
        "answers:   with confidence %.3f or higher; on validation this answered %.1f %% of "
        "the images, %.1f %% of them correctly (95 %% interval %.1f to %.1f %%)",
        thresholds[0], 100 * rate.share(), 100 * rate.accuracy(), 100 * interval.low,
        100 * interval.high));
  }

 private:
  at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const override {
    return (logits / (is_raw ? 1 : calibration_.temperature)).softmax(1);
  }
  void decide(const std::vector<double>& thresholds, std::span<const float> /*judged*/,
              Score& score) const override {
    score.is_unsure = score.best[0].confidence < thresholds[0];
  }

  const Calibration calibration_;
};

class SeveralLabels final : public AnswerRule {
 public:
  explicit SeveralLabels(std::vector<LabelCalibration> labels)
      : AnswerRule(true, {"exact match", "labels", "label of an image", "labels of images",
                          ", and predicts several for an image, or none."}),
        labels_(std::move(labels)) {}

  std::vector<double> thresholds(std::optional<double> min_confidence,
                                 std::optional<double> answer_at) const override {
    std::vector<double> thresholds;
    for (const LabelCalibration& label : labels_) {
      const auto rate = answer_at ? answer_rate_for(label.answers, *answer_at) : std::nullopt;
      thresholds.push_back(rate        ? rate->threshold
                           : answer_at ? kNever
                                       : min_confidence.value_or(label.threshold));
    }
    if (answer_at && std::ranges::count(thresholds, kNever) == std::ssize(thresholds))
      throw unreached(*answer_at);
    return thresholds;
  }
  void log_answers(double answer_at, const std::vector<double>& thresholds,
                   Log& log) const override {
    const auto never = std::ranges::count(thresholds, kNever);
    log.info(formatted("answers:   on validation %s of %zu reached a precision of %g %%%s",
                       plural(std::ssize(thresholds) - never, "class", "classes").c_str(),
                       thresholds.size(), 100 * answer_at,
                       never > 0 ? "; the others are never predicted" : ""));
  }

 private:
  static constexpr double kNever = 2;  // above all probabilities

  at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const override {
    std::vector<double> temperatures;
    for (const LabelCalibration& label : labels_) temperatures.push_back(label.temperature);
    return (is_raw ? logits : logits / at::tensor(temperatures, at::kFloat)).sigmoid();
  }
  void decide(const std::vector<double>& thresholds, std::span<const float> judged,
              Score& score) const override {
    std::vector<RankedClass> chosen;
    score.labels.emplace();
    for (std::size_t c = 0; c < thresholds.size(); ++c) {
      if (judged[c] < static_cast<float>(thresholds[c])) continue;
      chosen.push_back({static_cast<int>(c), score.probabilities[c]});
      score.labels->push_back(static_cast<int>(c));
    }
    score.is_unsure = chosen.empty();
    if (chosen.empty()) return;
    std::ranges::stable_sort(chosen, std::ranges::greater{}, &RankedClass::confidence);
    score.best = std::move(chosen);
  }

  const std::vector<LabelCalibration> labels_;  // by class id
};

}  // namespace

std::vector<Score> AnswerRule::answers(const at::Tensor& logits, const AnswerPlan& plan) const {
  const at::Tensor written = probabilities(logits, plan.is_raw).contiguous();
  const at::Tensor judged = plan.is_raw == plan.judges_raw
                                ? written
                                : probabilities(logits, plan.judges_raw).contiguous();
  const auto [confidences, ids] = at::topk(written, plan.top_k, 1);
  const auto row_of = [](const at::Tensor& all, std::size_t at) {
    const auto num_classes = static_cast<std::size_t>(all.size(1));
    return std::span(all.const_data_ptr<float>() + at * num_classes, num_classes);
  };
  std::vector<Score> scores(static_cast<std::size_t>(logits.size(0)));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    Score& score = scores[i];
    const std::size_t first = i * static_cast<std::size_t>(plan.top_k);
    const float* confidence = confidences.const_data_ptr<float>() + first;
    const std::int64_t* id = ids.const_data_ptr<std::int64_t>() + first;
    if (!std::isfinite(confidence[0])) {
      score.fault = kNoNumberFault;
      continue;
    }
    for (int place = 0; place < plan.top_k; ++place)
      score.best.push_back({static_cast<int>(id[place]), confidence[place]});
    const std::span<const float> row = row_of(written, i);
    if (plan.all_classes) score.probabilities.assign(row.begin(), row.end());
    decide(plan.thresholds, row_of(judged, i), score);
  }
  return scores;
}

ScoreColumns AnswerRule::fitted(ScoreColumns columns) const {
  if (!has_several_labels) return columns;
  columns.top_k = 1;
  columns.all_classes = true;
  columns.guesses = false;
  columns.unsure_text = "no label; the likeliest is ";
  return columns;
}

void AnswerRule::require_one_label(const std::string& what) const {
  if (has_several_labels && !what.empty())
    throw Error(ErrorCode::kUserError,
                what + " needs a model of one label an image, but this one predicts several.");
}

std::unique_ptr<const AnswerRule> rule_of(const ModelSpec& spec, const Calibration& calibration) {
  if (spec.task == TaskKind::kMultiLabel)
    return std::make_unique<SeveralLabels>(calibration.labels);
  return std::make_unique<OneLabel>(calibration);
}

}  // namespace kiln
