// Metrics of a model on labeled images: accuracy, per-class metrics, calibration, coverage by
// confidence, and whether two models differ; and the record and files of `kiln evaluate`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/label_scores.h"
#include "record/run_summary.h"

namespace kiln {

// A model's prediction for one image.
struct PredictedImage {
  int truth = 0;
  std::span<const std::int32_t> top;     // the most probable classes, the prediction first
  std::span<const float> probabilities;  // of all classes, by class id
};

// The images whose confidence lies in one interval. Both means are NaN without images.
struct CalibrationBin {
  std::int64_t images = 0, right = 0;
  double confidence_sum = 0;
  double mean_confidence() const { return share_of(confidence_sum, images); }
  double accuracy() const { return share_of(right, images); }
};

// Sums over the images of one model, in memory that grows with the number of classes. One thread.
class Evaluation {
 public:
  // Bin b holds confidences in (b / 15, (b + 1) / 15], as in Guo et al. (see below).
  static constexpr int kNumCalibrationBins = 15;

  // An image is right in top-k if its class is among the first `k` of `top`; k is limited to the
  // number of classes.
  Evaluation(int num_classes, int k);

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
  const std::vector<ConfidenceBins>& bins() const { return bins_; }    // by class
  const std::array<CalibrationBin, kNumCalibrationBins>& calibration() const {
    return calibration_;
  }

 private:
  int k_;
  Totals totals_;
  std::vector<ClassScore> classes_;
  ConfusionMatrix confusion_;
  std::vector<AnswerBin> answers_;
  std::vector<ConfidenceBins> bins_;
  std::array<CalibrationBin, kNumCalibrationBins> calibration_;
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
  bool out_of_fold = false;
  double share() const { return share_of(answered, images); }    // NaN without images
  double accuracy() const { return share_of(right, answered); }  // NaN without answers
  Interval interval() const {                                    // of the accuracy
    return out_of_fold ? out_of_fold_interval(right, answered) : wilson_interval(right, answered);
  }
};

// The rate at the lowest bin bound that is not below `threshold`, which the result holds as its
// threshold.
AnswerRate answer_rate(std::span<const AnswerBin> bins, double threshold);
AnswerRate answer_rate(const Calibration& calibration, double threshold);

// The rate at the lowest threshold, thus with the most answers, at which these images show this
// accuracy: the lower end of the 95 % interval reaches it. Empty if there is none. A threshold at
// which the accuracy alone reached it would keep less than that on other images in half of all
// cases (bench/trust.py).
std::optional<AnswerRate> answer_rate_for(std::span<const AnswerBin> bins, double accuracy,
                                          bool out_of_fold = false);
std::optional<AnswerRate> answer_rate_for(const Calibration& calibration, double accuracy);

// Two models on the same images.
struct PairedAnswers {
  // Which of the two models is right.
  std::int64_t both = 0, only_first = 0, only_second = 0, neither = 0;

  void add(bool first_is_right, bool second_is_right) {
    ++(first_is_right ? (second_is_right ? both : only_first)
                      : (second_is_right ? only_second : neither));
  }
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

// The results of `kiln evaluate` for one or more models, for its files and pages.

// Evaluated images that are byte for byte equal to an image used to train the model, or to choose
// it in validation.
struct SeenCounts {
  long long training = 0, validation = 0;
};

// A sentence for each kind of image that the model has seen, for the accuracy on them; empty: none.
std::vector<std::string> seen_texts(const SeenCounts& seen);

struct EvaluatedModel {
  std::string path;              // as given
  std::string network;           // "resnet18"
  DataRecord data;               // the model's classes and image size
  Evaluation figures;            // with calibrated confidences
  Calibration calibration = {};  // the model's temperature; answers on the evaluated images
  long long num_unlabeled = 0;   // images without a label; skipped
  long long num_unknown = 0;     // images of classes that the model lacks; skipped
  std::vector<std::string> unknown_labels;  // the labels of those
  std::optional<SeenCounts> seen;           // empty: the model does not store what it has seen
  std::vector<ImageFaultRecord> faults;     // of bad and damaged images
  long long num_bad = 0;                    // bad images, which are skipped
  std::vector<std::string> doubts = {};     // reasons not to trust the labels of the images
  ValidationDetails details = {};           // the confusion matrix, tables and galleries
  // Of several labels an image, whose `figures` have no images. By class id; empty: one label.
  std::vector<ClassScore> label_scores = {};
  std::vector<double> thresholds = {};
  long long num_labeled = 0;  // their images

  bool has_several_labels() const { return !label_scores.empty(); }
  long long num_images() const {
    return has_several_labels() ? num_labeled : figures.totals().count;
  }
};

// An image on which two models differ and one of them is right.
struct DifferingImage {
  std::string file, true_label;
  std::string first_label, second_label;
  double first_confidence = 0, second_confidence = 0;
  Thumbnail thumbnail;
};

// Two of the models, by index, compared on the images that both have answered.
struct ModelPair {
  std::size_t first = 0, second = 0;
  PairedAnswers answers = {};
  McNemarTest test = {};
  std::vector<DifferingImage> images = {};  // in dataset order; the first ones have thumbnails
};

struct EvaluationRecord {
  double time = 0;  // Unix seconds
  std::string data_path;
  TextPairs options, versions;
  std::string device, precision;
  long long num_images = 0, num_unlabeled = 0;  // images in the dataset; those without a label
  std::vector<EvaluatedModel> models = {};
  std::vector<ModelPair> pairs = {};  // every pair of models
};

std::string name_of(const EvaluatedModel& model);  // on pages and the console: network and folder
double majority_share(
    const Evaluation& figures);  // accuracy of always predicting the largest class

inline constexpr const char* kEvaluationFileName = "evaluation.json";

// All results except pictures: {"data_path", "models": [{"path", "top1", "classes": […], …}],
// "pairs": […], …}. Undefined values, such as the recall of a class without images, are null.
std::string evaluation_json(const EvaluationRecord& record);
// A metric by its name there; empty: it has none of that name, or the value is undefined.
std::optional<double> metric_of(const EvaluatedModel& model, const std::string& name);
// One row per model, ending with the columns that the designer's Evaluate Model has for more than
// two classes: Overall_Accuracy, Micro_Precision, Macro_Precision, Micro_Recall, Macro_Recall. Of
// several labels an image, the metrics are those of EvaluatedModel::details.
std::string evaluation_csv(const EvaluationRecord& record);

std::string classes_csv(const EvaluationRecord& record);      // one row per class of each model
std::string differences_csv(const EvaluationRecord& record);  // one per image of ModelPair::images

// A model's metrics for TensorBoard and MLflow, in the group "evaluation".
std::vector<Metric> evaluation_metrics(const EvaluatedModel& model);

}  // namespace kiln
