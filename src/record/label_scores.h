// Metrics of several labels an image: how well the images are ranked for each class, and what is
// predicted from thresholds on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "record/run_summary.h"
#include "record/training_record.h"

namespace kiln {

// The answers of a model for images: logits [N, num_classes], row-major, and for each image an
// index into the combinations of classes that occur. The memory must outlive it.
struct LabelAnswers {
  std::span<const float> logits;
  std::span<const std::int32_t> labels;
  const std::vector<std::vector<int>>& sets;
  std::size_t num_classes = 0;

  float logit(std::size_t image, std::size_t c) const { return logits[image * num_classes + c]; }
  // [N]: which images have the class.
  std::vector<char> have(std::size_t c) const;
};

// An image's answer for one class.
struct LabelAnswer {
  float logit = 0;
  bool is_there = false;
  std::uint32_t image = 0;  // its place among the answers
};

// The answers for one class, the highest logit first. Equal ones are in an order that does not
// depend on that of the images.
std::vector<LabelAnswer> ranked_answers(const LabelAnswers& answers, std::size_t c);

// Sum of (R_n - R_{n-1}) P_n over the distinct logits, where P_n and R_n are the precision and the
// recall from the n-th on: scikit-learn's average_precision_score. NaN if no image has the class.
double average_precision(std::span<const LabelAnswer> ranked);

// The highest precision of a threshold that recalls at least 0, 1/20, 2/20 ... 1 of the images with
// the class; empty if there are none.
std::vector<double> precision_by_recall(std::span<const LabelAnswer> ranked);

// The number of answers, from the first, with the highest F1 of all that a threshold can separate;
// 0 if no image has the class.
std::size_t best_by_f1(std::span<const LabelAnswer> ranked);

// Of all classes; not a number if no image has a class.
struct LabelMetrics {
  double mean_average_precision = 0, micro_f1 = 0, macro_f1 = 0;
};

// What is predicted of one class, by its first `num_predicted` answers; without its label.
ClassScore score_of(std::span<const LabelAnswer> ranked, std::size_t num_predicted);

// Means over the classes. The F1 is that of probabilities from one half on. Macro means are over
// classes that images have and, for the F1, that are predicted.
LabelMetrics metrics_of(const LabelAnswers& answers);
LabelMetrics metrics_of(std::span<const ClassScore> scores);

// Two classes, the first with the lower id, and in how many images both are, and are predicted.
struct LabelPair {
  int first = 0, second = 0;
  std::int64_t images = 0, predicted = 0;
};
// At most `most` pairs, those that most images have or are predicted to have first. None of more
// than kMaxPairedClasses classes.
inline constexpr std::size_t kMaxPairedClasses = 300;
std::vector<LabelPair> label_pairs(const LabelAnswers& answers,
                                   const std::vector<LabelCalibration>& calibration,
                                   std::size_t most);

// A label that is predicted and not there, or there and not predicted.
struct LabelMistake {
  std::uint32_t image = 0;  // its place among the answers
  int label = 0;
  double confidence = 0;  // that it is there, or that it is not
};

// What is predicted from the thresholds of `calibration`, which has each class.
struct PredictedLabels {
  std::vector<ClassScore> scores;           // by class
  std::vector<LabelMistake> extra, missed;  // at most `most` each, the surest first
};
PredictedLabels predicted_labels(const LabelAnswers& answers,
                                 const std::vector<LabelCalibration>& calibration,
                                 std::size_t most);

// The metrics as figures, the leading one first. `exact`: the share of images whose labels are all
// right; not a number: left out.
std::vector<Figure> figures_of(const LabelMetrics& metrics, double exact);

// What reports show of judged images: the figures at the thresholds, a table of the classes, and
// the surest mistakes of each kind, which `show` turns into pictures.
struct LabelResults {
  std::vector<ClassScore> scores;  // by class
  ValidationDetails details;       // with the calibration that is given, and without an epoch
};
LabelResults label_results(const LabelAnswers& answers, const Calibration& calibration,
                           const std::vector<std::string>& classes,
                           const std::function<JudgedImage(const LabelMistake&)>& show);

}  // namespace kiln
