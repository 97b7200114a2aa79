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
  void tell(const std::vector<double>& thresholds, Score& score) const override {
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
                                  ", and tells several of an image, or none."};
    return kWords;
  }
  at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const override {
    return (is_raw ? logits : logits / temperatures()).sigmoid();
  }
  std::vector<double> thresholds(std::optional<double> min_confidence,
                                 std::optional<double> answer_at) const override {
    require_one_label(answer_at ? "--answer-at" : "");
    std::vector<double> thresholds;
    for (const LabelCalibration& label : labels_)
      thresholds.push_back(min_confidence.value_or(label.threshold));
    return thresholds;
  }
  void tell(const std::vector<double>& thresholds, Score& score) const override {
    std::vector<RankedClass> told;
    score.told.emplace();
    for (std::size_t c = 0; c < thresholds.size(); ++c) {
      const float probability = score.probabilities[c];
      if (probability < static_cast<float>(thresholds[c])) continue;
      told.push_back({static_cast<int>(c), probability});
      score.told->push_back(static_cast<int>(c));
    }
    score.is_unsure = told.empty();
    if (told.empty()) return;
    std::ranges::stable_sort(told, std::ranges::greater{}, &RankedClass::confidence);
    score.best = std::move(told);
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
                  what + " needs a model of one label an image, but this one tells several.");
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
  if (const auto rate = answer_rate_for(calibration.answers, *answer_at)) return rate->threshold;
  const std::string wanted = formatted("--answer-at %g%%: ", 100 * *answer_at);
  throw Error(ErrorCode::kUserError,
              wanted + (calibration.answers.empty()
                            ? "the model has no record of its validation accuracy "
                              "(calibration.json). Use --min-confidence."
                            : "the model did not reach this accuracy on validation at any "
                              "confidence. Use a lower value, or --min-confidence."));
}

}  // namespace kiln
