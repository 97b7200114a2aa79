// How the output of a trained model becomes an answer: a row for one label an image, and one for
// several. What uses a model prints what its rule says.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "record/training_record.h"
#include "report/scores/score_formats.h"
#include "store/model_spec.h"

namespace kiln {

// The fault of an image whose logits are not finite.
inline constexpr const char* kNoNumberFault = "the network's output for it is not a number";

// What a command wants to know of each image.
struct AnswerPlan {
  std::vector<double> thresholds;  // AnswerRule::thresholds()
  int top_k = 1;                   // so many of the most probable classes, at most all
  bool all_classes = false;        // all probabilities, which several labels need
  bool is_raw = false;             // these are without temperatures
  bool judges_raw = false;         // and so are those that the thresholds are for
  double refuse_unlike = 0;        // images that are less alike get no answer
  bool wants_features = false;     // of the images, beside the answers
  int neighbors = 0;               // so many of the nearest training images
};

class AnswerRule {
 public:
  struct Words {
    const char* accuracy;        // the share of images that are answered right
    const char* known;           // "a label", that a model must know to be right
    const char *image, *images;  // what a class counts
    const char* limits;          // of what it knows, as the end of a sentence
  };

  virtual ~AnswerRule() = default;

  const bool has_several_labels;
  const Words words;

  // From which probabilities on it answers: one number, or one for each class, above 1 for those
  // that never reach --answer-at. By --min-confidence or --answer-at; with neither, a model of one
  // label always answers. Throws Error kUserError if the validation results do not give a threshold
  // for the latter.
  virtual std::vector<double> thresholds(std::optional<double> min_confidence,
                                         std::optional<double> answer_at) const = 0;
  // Logs what these thresholds of --answer-at amount to on the validation images.
  virtual void log_answers(double answer_at, const std::vector<double>& thresholds,
                           Log& log) const = 0;

  // Logits [N, C], float32 on the CPU -> N answers, without the names of the images. Where the
  // logits are not finite there is nothing but kNoNumberFault.
  std::vector<Score> answers(const at::Tensor& logits, const AnswerPlan& plan) const;

  // These columns, changed as the answers of several labels need.
  ScoreColumns fitted(ScoreColumns columns) const;
  // Throws Error kUserError if `what` cannot be used with this model. Empty: nothing is asked.
  void require_one_label(const std::string& what) const;

 protected:
  AnswerRule(bool several_labels, const Words& its_words)
      : has_several_labels(several_labels), words(its_words) {}

 private:
  // `is_raw`: all temperatures are 1.
  virtual at::Tensor probabilities(const at::Tensor& logits, bool is_raw) const = 0;
  // Completes a score that has its most probable classes and what else the plan asks for. `judged`
  // are the probabilities that the thresholds are for, by class id.
  virtual void decide(const std::vector<double>& thresholds, std::span<const float> judged,
                      Score& score) const = 0;
};

std::unique_ptr<const AnswerRule> rule_of(const ModelSpec& spec, const Calibration& calibration);

}  // namespace kiln
