#include "predict/answer_rule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

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
  explicit OneLabel(Calibration calibration) : calibration_(std::move(calibration)) {}

  const Words& words() const override {
    static constexpr Words kWords{"top-1 accuracy", "a label", "image", "images",
                                  ": an image of something else gets one of them."};
    return kWords;
  }
  at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const override {
    return (logits / (is_raw ? 1 : calibration_.temperature)).softmax(1);
  }
  std::vector<double> thresholds(std::optional<double> min_confidence,
                                 std::optional<double> answer_at) const override {
    return {answer_threshold(min_confidence, answer_at, calibration_)};
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
  void decide(const std::vector<double>& thresholds, std::span<const float> /*judged*/,
              Score& score) const override {
    score.is_unsure = score.best[0].confidence < thresholds[0];
  }
  void fit_columns(ScoreColumns&) const override {}
  void require_one_label(const std::string&) const override {}

  OnnxAnswer onnx() const override {
    return {at::scalar_tensor(calibration_.temperature, at::kFloat), "Softmax", {{"axis", 1}}};
  }
  std::string python_of_onnx() const override {
    return "print(labels[probabilities[0].argmax()], probabilities[0].max())\n";
  }
  std::string python_of_torch() const override {
    return "probabilities = (network(pixels[None])[0] / " +
           formatted("%.9g", calibration_.temperature) +
           ").softmax(0)\nprint(labels[probabilities.argmax()], probabilities.max().item())\n";
  }

 private:
  const Calibration calibration_;
};

class SeveralLabels final : public AnswerRule {
 public:
  explicit SeveralLabels(std::vector<LabelCalibration> labels) : labels_(std::move(labels)) {}

  const Words& words() const override {
    static constexpr Words kWords{"exact match", "labels", "label of an image", "labels of images",
                                  ", and predicts several for an image, or none."};
    return kWords;
  }
  at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const override {
    return (is_raw ? logits : logits / temperatures()).sigmoid();
  }
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
  void fit_columns(ScoreColumns& columns) const override {
    columns.top_k = 1;
    columns.all_classes = true;
    columns.guesses = false;
    columns.unsure_text = "no label; the likeliest is ";
  }
  void require_one_label(const std::string& what) const override {
    if (!what.empty())
      throw Error(ErrorCode::kUserError,
                  what + " needs a model of one label an image, but this one predicts several.");
  }

  OnnxAnswer onnx() const override { return {temperatures(), "Sigmoid", {}}; }
  std::string python_of_onnx() const override {
    return "classes = json.loads(session.get_modelmeta().custom_metadata_map[\"calibration\"])"
           "[\"classes\"]\n"
           "print([label for label, share, one in zip(labels, probabilities[0], classes) "
           "if share >= one[1]])\n";
  }
  std::string python_of_torch() const override {
    return "probabilities = (network(pixels[None])[0] / torch.tensor(" +
           list_of(&LabelCalibration::temperature) +
           ")).sigmoid()\nthresholds = " + list_of(&LabelCalibration::threshold) +
           "\nprint([label for label, share, least in zip(labels, probabilities.tolist(), "
           "thresholds) if share >= least])\n";
  }

 private:
  static constexpr double kNever = 2;  // above all probabilities

  at::Tensor temperatures() const {
    std::vector<double> values;
    for (const LabelCalibration& label : labels_) values.push_back(label.temperature);
    return at::tensor(values, at::kFloat);
  }
  std::string list_of(double LabelCalibration::*value) const {
    std::vector<std::string> texts;
    for (const LabelCalibration& label : labels_) texts.push_back(formatted("%.9g", label.*value));
    return "[" + joined(texts, ", ") + "]";
  }

  const std::vector<LabelCalibration> labels_;  // by class id
};

}  // namespace

std::unique_ptr<const AnswerRule> rule_of(const ModelSpec& spec, const Calibration& calibration) {
  if (spec.task == TaskKind::kMultiLabel)
    return std::make_unique<SeveralLabels>(calibration.labels);
  return std::make_unique<OneLabel>(calibration);
}

double answer_threshold(std::optional<double> min_confidence, std::optional<double> answer_at,
                        const Calibration& calibration) {
  // Rounded to float, like the confidences that users read in the output and pass back here.
  if (!answer_at) return static_cast<float>(min_confidence.value_or(0));
  if (const auto rate = answer_rate_for(calibration, *answer_at)) return rate->threshold;
  if (!calibration.answers.empty()) throw unreached(*answer_at);
  throw Error(ErrorCode::kUserError,
              formatted("--answer-at %g%%: the model has no record of its validation accuracy "
                        "(calibration.json). Use --min-confidence.",
                        100 * *answer_at));
}

}  // namespace kiln
