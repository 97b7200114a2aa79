// Metrics of a model on labeled images: accuracy, per-class metrics, calibration, coverage by
// confidence, and whether two models differ. Plain numbers, accumulated image by image.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "record/calibration.h"
#include "record/run_summary.h"
#include "record/training_record.h"

namespace kiln {

// A model's prediction for one image.
struct PredictedImage {
  std::int64_t image = 0;  // identifies the image: its index in the dataset
  int truth = 0;
  std::span<const std::int32_t> top;     // the most probable classes, the prediction first
  std::span<const float> probabilities;  // of all classes, by class id
};

struct WrongImage {
  std::int64_t image = 0;
  int truth = 0, guess = 0;
  double confidence = 0;
};

// The images whose confidence lies in one interval. Both means are NaN without images.
struct CalibrationBin {
  std::int64_t images = 0, right = 0;
  double confidence_sum = 0;
  double mean_confidence() const;
  double accuracy() const;
};

// Sums over the images of one model. Memory grows with the number of classes, not of images. One
// thread.
class Evaluation {
 public:
  // Bin b holds confidences in (b / 15, (b + 1) / 15], as in Guo et al. (see below).
  static constexpr int kNumCalibrationBins = 15;

  // An image is right in top-k if its class is among the first `k` of `top`; k is limited to the
  // number of classes. Keeps at most `most_wrong` wrong images.
  Evaluation(int num_classes, int k, std::size_t most_wrong);

  // Throws InternalError if a class is out of range or `top` or `probabilities` is too short.
  void add(const PredictedImage& image);

  int k() const { return k_; }
  // Whether an answer can be wrong in top-k, and top-k is another figure than top-1.
  bool has_top_k() const { return k_ > 1 && k_ < static_cast<int>(classes_.size()); }
  // Top-1, top-k (stored as top-5), and the cross-entropy of the probabilities, each at least the
  // smallest normal float.
  const Totals& totals() const { return totals_; }
  const std::vector<ClassScore>& classes() const { return classes_; }  // by label
  const ConfusionMatrix& confusion() const { return confusion_; }      // as in training
  const std::vector<AnswerBin>& answers() const { return answers_; }   // empty_answer_bins()
  std::vector<WrongImage> most_confidently_wrong() const;  // ties in order of the images
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

// Unweighted mean over the classes that have images; NaN if there are none. Also known as balanced
// accuracy.
double macro_recall(std::span<const ClassScore> classes);
// Unweighted mean over the classes that have images or were predicted, as in scikit-learn; NaN if
// there are none.
double macro_f1(std::span<const ClassScore> classes);

// The mean difference between confidence and accuracy, with each bin weighted by its number of
// images. Naeini, Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian
// Binning, AAAI 2015; Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks,
// ICML 2017. NaN without images.
double expected_calibration_error(std::span<const CalibrationBin> bins);

// The answers of a model that abstains below a confidence threshold: the share of images that it
// answers, and how many of those are right. Geifman and El-Yaniv, Selective Classification for Deep
// Neural Networks, NeurIPS 2017 (coverage and risk).
struct AnswerRate {
  double threshold = 0;                              // answered from this confidence on
  std::int64_t images = 0, answered = 0, right = 0;  // `images`: answered or not
  double share() const;       // answered share of the images; NaN without images
  double accuracy() const;    // of the answers; NaN if there are none
  Interval interval() const;  // of the accuracy
  // With fewer answers an accuracy of 99 % cannot be promised: even 300 answers without a mistake
  // show no more than that (at 95 % confidence; J. A. Hanley and A. Lippman-Hand, If Nothing Goes
  // Wrong, Is Everything All Right?, JAMA 249 (1983): 3 / n).
  static constexpr std::int64_t kLeastAnswers = 300;
  bool can_be_promised() const { return answered >= kLeastAnswers; }
};

// The rate at the lowest bin bound that is not below `threshold`, which the result holds as its
// threshold.
AnswerRate answer_rate(std::span<const AnswerBin> bins, double threshold);

// The rate at the lowest threshold, thus with the most answers, that reaches `accuracy`; empty if
// none does. A little optimistic, since the threshold is chosen on the same images.
std::optional<AnswerRate> answer_rate_for(std::span<const AnswerBin> bins, double accuracy);

// Two models on the same images.
struct PairedAnswers {
  // Which of the two models is right.
  std::int64_t both = 0, only_first = 0, only_second = 0, neither = 0;

  void add(bool first_is_right, bool second_is_right);
  std::int64_t images() const { return both + only_first + only_second + neither; }
};

// Tests whether the accuracies of two models differ: Q. McNemar, Note on the Sampling Error of the
// Difference Between Correlated Proportions or Percentages, Psychometrika 12 (1947). Two-sided.
struct McNemarTest {
  bool is_exact = true;  // binomial, for fewer than 25 images on which only one model is right
  double statistic = 0;  // else chi-square with one degree of freedom and continuity correction:
                         // A. L. Edwards, Psychometrika 13 (1948)
  double p_value = 1;
};
McNemarTest mcnemar_test(const PairedAnswers& answers);

}  // namespace kiln
