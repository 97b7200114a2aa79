// The figures of a model on labeled images: accuracy, figures by class, calibration, how much it
// answers at which confidence, and whether two models differ. Plain numbers, fed image by image.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/calibration.h"
#include "base/training_record.h"
#include "report/record/run_summary.h"

namespace kiln {

// What a model says of one image.
struct PredictedImage {
  std::int64_t image = 0;  // tells images apart: its position in the dataset
  int truth = 0;
  std::span<const std::int32_t> top;     // the likeliest classes, first the prediction
  std::span<const float> probabilities;  // of all classes
};

struct WrongImage {
  std::int64_t image = 0;
  int truth = 0, guess = 0;
  double confidence = 0;
};

// The images whose confidence lies in one interval. The two figures are NaN without images.
struct CalibrationBin {
  std::int64_t images = 0, right = 0;
  double confidence_sum = 0;
  double mean_confidence() const;
  double accuracy() const;
};

// Sums over the images of one model; memory grows with the classes, not with the images. One
// thread.
class Evaluation {
 public:
  // Bin b holds the confidences in (b / 15, (b + 1) / 15], as Guo et al. draw them (below).
  static constexpr int kNumCalibrationBins = 15;

  // An image counts as right in top-k if its class is among the first `k` of `top`; k is cut to
  // the classes. At most `most_wrong` wrong images are kept.
  Evaluation(int num_classes, int k, std::size_t most_wrong);

  // Throws InternalError for a class out of range, and where `top` or `probabilities` is too short.
  void add(const PredictedImage& image);

  int k() const { return k_; }
  // Top-1, top-k in the place of top-5, and the cross-entropy of the probabilities; a probability
  // below the smallest float counts as that.
  const Totals& totals() const { return totals_; }
  const std::vector<ClassScore>& classes() const { return classes_; }  // by label
  const ConfusionMatrix& confusion() const { return confusion_; }      // as in training
  const std::vector<AnswerBin>& answers() const { return answers_; }   // empty_answer_bins()
  std::vector<WrongImage> most_confidently_wrong() const;              // equal ones in order
  const std::array<CalibrationBin, kNumCalibrationBins>& calibration() const {
    return calibration_;
  }

 private:
  void note_wrong(const WrongImage& image);

  int k_;
  std::size_t most_wrong_;
  Totals totals_;
  std::vector<ClassScore> classes_;
  ConfusionMatrix confusion_;
  std::vector<AnswerBin> answers_;
  std::array<CalibrationBin, kNumCalibrationBins> calibration_;
  std::vector<WrongImage> wrong_;  // a heap, the least confident first
};

// The mean over the classes that have images, each counting the same; NaN without any. Also known
// as balanced accuracy.
double macro_recall(std::span<const ClassScore> classes);
// The mean over the classes that have images or were predicted, as in scikit-learn; NaN without
// any.
double macro_f1(std::span<const ClassScore> classes);

// The mean distance between confidence and accuracy, weighted by the images of the bins. Naeini,
// Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian Binning, AAAI 2015;
// Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017. NaN without
// images.
double expected_calibration_error(std::span<const CalibrationBin> bins);

// What a model answers that keeps silent below a confidence: the share of the images that it
// answers, and how many of those are right. Geifman and El-Yaniv, Selective Classification for Deep
// Neural Networks, NeurIPS 2017 (coverage and risk).
struct AnswerRate {
  double threshold = 0;                              // answered from this confidence on
  std::int64_t images = 0, answered = 0, right = 0;  // `images`: all of them
  double share() const;                              // answered; NaN without images
  double accuracy() const;                           // of the answers; NaN if there are none
  Interval interval() const;                         // of the accuracy
  // Below this many answers an accuracy such as 99 % cannot be promised: without any mistake, 300
  // answers show no more than that (95 %, J. A. Hanley and A. Lippman-Hand, If Nothing Goes Wrong,
  // Is Everything All Right?, JAMA 249 (1983): 3 / n).
  static constexpr std::int64_t kLeastAnswers = 300;
  bool can_be_promised() const { return answered >= kLeastAnswers; }
};

// At the bound of a bin that is `threshold` or the next above; the result names it.
AnswerRate answer_rate(std::span<const AnswerBin> bins, double threshold);

// With the lowest threshold, thus the most answers, whose accuracy is at least `accuracy`. Empty if
// none has it. It was chosen on these very images, so it is a little optimistic.
std::optional<AnswerRate> answer_rate_for(std::span<const AnswerBin> bins, double accuracy);

// Two models on the same images.
struct PairedAnswers {
  std::int64_t both = 0, only_first = 0, only_second = 0, neither = 0;  // are right

  void add(bool first_is_right, bool second_is_right);
  std::int64_t images() const { return both + only_first + only_second + neither; }
};

// Whether the accuracies of two models differ: Q. McNemar, Note on the Sampling Error of the
// Difference Between Correlated Proportions or Percentages, Psychometrika 12 (1947). Two-sided.
struct McNemarTest {
  bool is_exact = true;  // binomial, for fewer than 25 images on which only one model is right
  double statistic = 0;  // else chi-square with one degree of freedom and continuity correction:
                         // A. L. Edwards, Psychometrika 13 (1948)
  double p_value = 1;
};
McNemarTest mcnemar_test(const PairedAnswers& answers);

}  // namespace kiln
