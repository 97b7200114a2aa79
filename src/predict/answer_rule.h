// How the output of a trained model becomes an answer: a row for one label an image, and one for
// several. What uses a model prints what its rule says.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "record/training_record.h"
#include "report/scores/score_formats.h"
#include "store/model_spec.h"

namespace kiln {

class AnswerRule {
 public:
  struct Words {
    const char* accuracy;        // the share of images that are answered right
    const char* known;           // "a label", that a model must know to be right
    const char *image, *images;  // what a class counts
    const char* limits;          // of what it knows, as the end of a sentence
  };
  // The last nodes of an ONNX file: logits / temperatures, scalar or of the classes; an operation.
  struct OnnxAnswer {
    at::Tensor temperatures;
    const char* operation;
    std::vector<std::pair<const char*, std::int64_t>> attributes;
  };

  virtual ~AnswerRule() = default;
  virtual const Words& words() const = 0;

  // Logits [N, C] on the CPU -> the probabilities of the classes. `is_raw`: all temperatures are 1.
  virtual at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const = 0;
  // From which probabilities on it answers: one number, or one for each class, above 1 for those
  // that never reach --answer-at. By --min-confidence or --answer-at. Throws as answer_threshold().
  virtual std::vector<double> thresholds(std::optional<double> min_confidence,
                                         std::optional<double> answer_at) const = 0;
  // Logs what these thresholds of --answer-at amount to on the validation images.
  virtual void log_answers(double answer_at, const std::vector<double>& thresholds,
                           Log& log) const = 0;
  // Completes a score that has its most probable classes and, if the columns ask, all
  // probabilities. `judged` are the probabilities of the image that the thresholds of several
  // labels are for, by class id: with --raw, not those of the score.
  virtual void decide(const std::vector<double>& thresholds, std::span<const float> judged,
                      Score& score) const = 0;
  virtual void fit_columns(ScoreColumns& columns) const = 0;
  // Throws Error kUserError if `what` cannot be used with this model. Empty: nothing is asked.
  virtual void require_one_label(const std::string& what) const = 0;

  virtual OnnxAnswer onnx() const = 0;
  // Lines of Python: from `probabilities` and `labels` of an ONNX session, and from `network` and
  // `pixels` of PyTorch, to what is printed.
  virtual std::string python_of_onnx() const = 0;
  virtual std::string python_of_torch() const = 0;
};

std::unique_ptr<const AnswerRule> rule_of(const ModelSpec& spec, const Calibration& calibration);

// The confidence from which a model of one label answers, by --min-confidence or --answer-at; 0: it
// always answers. Throws Error kUserError if the validation results do not give a threshold for the
// latter.
double answer_threshold(std::optional<double> min_confidence, std::optional<double> answer_at,
                        const Calibration& calibration);

}  // namespace kiln
