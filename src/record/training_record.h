// The metrics of a run as plain values: computed by train/, reported by report/, kept in run_file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

// Sums over images; averages are over good images only.
struct Totals {
  double loss_sum = 0;
  std::int64_t top1 = 0, top5 = 0, count = 0;

  Totals& operator+=(const Totals& other) {
    loss_sum += other.loss_sum;
    top1 += other.top1;
    top5 += other.top5;
    count += other.count;
    return *this;
  }
  double loss() const { return per_image(loss_sum); }
  double top1_accuracy() const { return per_image(static_cast<double>(top1)); }
  double top5_accuracy() const { return per_image(static_cast<double>(top5)); }

 private:
  double per_image(double sum) const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

// Whether an epoch with validation totals `candidate` replaces the best one so far: higher top-1,
// or equal top-1 and lower loss.
inline bool is_better(const Totals& candidate, const Totals& best) {
  if (candidate.top1_accuracy() != best.top1_accuracy())
    return candidate.top1_accuracy() > best.top1_accuracy();
  return candidate.loss() < best.loss();
}

// Scores of a model on labeled images, with every class weighted equally.
struct MacroScores {
  double recall = 0;  // mean over the classes that have images; also known as balanced accuracy
  double f1 = 0;      // mean over the classes that have images or were predicted
};

// A figure of an epoch, as the task names it.
struct Figure {
  std::string name;   // in JSON, "macro_f1"
  std::string title;  // "Validation/macro F1"
  std::string line;   // in the epoch's line of the log; empty: not there
  double value = 0;
  bool is_counted = false;  // the share that Totals::top1 counts, which has an interval
  bool operator==(const Figure&) const = default;
};

// The validation metric by which the best epoch is chosen.
enum class BestBy { kTop1, kLoss, kMacroRecall, kMap, kMacroF1 };

// What an epoch is judged by.
struct JudgedEpoch {
  Totals valid;
  double mean = 0;  // over the classes, of the metric by which it is judged
};

// The metric by which it is judged; more is better.
inline double merit(const JudgedEpoch& epoch, BestBy by) {
  if (by == BestBy::kLoss) return -epoch.valid.loss();
  return by == BestBy::kTop1 ? epoch.valid.top1_accuracy() : epoch.mean;
}

// Whether `candidate` replaces the best epoch so far. By loss: lower loss, or equal loss and higher
// top-1. By top-1: higher top-1, or equal and lower loss. By a mean over the classes: higher mean,
// or equal and better by top-1. The earlier epoch wins a tie.
inline bool is_better(const JudgedEpoch& candidate, const JudgedEpoch& best, BestBy by) {
  if (merit(candidate, by) != merit(best, by)) return merit(candidate, by) > merit(best, by);
  return is_better(candidate.valid, best.valid);
}

// The images whose prediction has a confidence from `from` up to the start of the next bin, and how
// many of them were predicted correctly.
struct AnswerBin {
  double from = 0;
  std::int64_t images = 0, right = 0;
  bool operator==(const AnswerBin&) const = default;
};

// Empty bins in ascending order, starting at 0: steps of 0.001 up to 0.99, then 100 bins for each
// further nine up to 1 - 1e-7, because a target such as "99.9 % right" is met by confidences close
// to 1.
inline std::vector<AnswerBin> empty_answer_bins() {
  constexpr int kThousandths = 990, kToEachNine = 100, kNines = 5;
  std::vector<AnswerBin> bins;
  bins.reserve(kThousandths + kToEachNine * kNines + 1);
  for (int i = 0; i < kThousandths; ++i) bins.push_back({i / 1000.0});
  for (int i = 0; i <= kToEachNine * kNines; ++i)
    bins.push_back({1 - 0.01 * std::pow(10.0, -static_cast<double>(i) / kToEachNine)});
  return bins;
}

// Adds one prediction to `bins`, the first of which starts at 0. `confidence` is in [0, 1].
inline void count_answer(double confidence, bool is_right, std::vector<AnswerBin>& bins) {
  const auto next = std::ranges::upper_bound(bins, confidence, {}, &AnswerBin::from);
  AnswerBin& bin = next == bins.begin() ? *next : *(next - 1);
  ++bin.images;
  if (is_right) ++bin.right;
}

// What is answered with a class, by confidence: of those in [b, b + 1) / 20, element 2 b counts
// all, and 2 b + 1 the right ones.
using ConfidenceBins = std::vector<std::int64_t>;
inline constexpr std::size_t kNumConfidenceBins = 20;

inline void count_answer(double confidence, bool is_right, ConfidenceBins& bins) {
  bins.resize(2 * kNumConfidenceBins);
  const auto bin = static_cast<std::size_t>(std::clamp(confidence, 0.0, 1.0) * kNumConfidenceBins);
  std::int64_t* counts = &bins[2 * std::min(bin, kNumConfidenceBins - 1)];
  counts[0] += 1;
  counts[1] += is_right ? 1 : 0;
}

inline constexpr double kLowestTemperature = 0.05, kHighestTemperature = 20;

// Whether the fit ended at a limit: confidence then does not tell right answers from wrong ones.
inline bool is_at_limit(double temperature) {
  return temperature < 1.001 * kLowestTemperature || temperature > 0.999 * kHighestTemperature;
}

// Of one class, where an image may have several: sigmoid(logit / temperature) is calibrated, and
// the class is predicted from `threshold` on, which gave the best F1 in validation.
struct LabelCalibration {
  double temperature = 1, threshold = 0.5;
  // The validation images by calibrated probability, right if they have the class: as few bins as
  // give answer_rate_for() of every precision.
  std::vector<AnswerBin> answers = {};
  double probability(double logit) const { return 1 / (1 + std::exp(-logit / temperature)); }
  bool predicts(double logit) const { return probability(logit) >= threshold; }
  bool operator==(const LabelCalibration&) const = default;
};

// How far a model's confidence can be trusted: softmax(logits / temperature) is calibrated.
struct Calibration {
  double temperature = 1;
  // The validation images on which the temperature was fitted, binned by calibrated confidence.
  // Bins without images are left out. Empty: unknown.
  std::vector<AnswerBin> answers;
  // By class id, for several labels an image; then the two above mean nothing. Empty: one label.
  std::vector<LabelCalibration> labels = {};
  bool out_of_fold = false;  // `answers` were those of the models of folds (--folds)
  bool operator==(const Calibration&) const = default;
};

// Time breakdown of training steps, in seconds, on rank 0.
struct StepTimes {
  double data_wait = 0;      // waiting for the next batch
  double forward = 0;        // copying the batch, forward pass and loss
  double backward = 0;       // including the all-reduce that overlaps with it
  double communication = 0;  // waiting for the all-reduce after backward
  double optimizer = 0;

  StepTimes& operator+=(const StepTimes& other) {
    data_wait += other.data_wait;
    forward += other.forward;
    backward += other.backward;
    communication += other.communication;
    optimizer += other.optimizer;
    return *this;
  }
};

// The designer's iteration line: this batch, and the epoch so far. Averages of times and rates are
// weighted by the number of images.
struct StepRecord {
  double time = 0;                // Unix time
  int epoch = 0, num_epochs = 0;  // from 1
  int step = 0, num_steps = 0;    // from 1, within the epoch
  double learning_rate = 0;
  StepTimes times = {};  // of the epoch so far
  double batch_seconds = 0, epoch_seconds = 0;
  double batch_images_per_second = 0, epoch_images_per_second = 0;
  Totals batch = {}, so_far = {};
  double data_wait_share = 0;               // fraction of the epoch's time so far
  double elapsed_seconds = 0;               // of the epoch so far
  std::optional<double> seconds_left = {};  // to the whole run, as rank 0 expects it
};

struct CommunicationTime {
  double summing = 0;  // seconds during which gradients were being all-reduced
  double waiting = 0;  // those of them in which nothing else was going on
};

// Load of this rank's GPU, from NVIDIA's management library (NVML), averaged over an epoch.
struct GpuLoad {
  double utilization_percent = 0, power_watts = 0;  // 0 W: the GPU does not tell
};

struct EpochRecord {
  double time = 0;  // Unix time
  int epoch = 0;    // from 1
  int num_steps = 0;
  double learning_rate = 0;
  // The designer's train_ips: the rates of the batches, averaged over images.
  double average_images_per_second = 0;
  double train_images_per_second = 0;  // images / seconds of the whole epoch
  Totals train, valid;
  std::optional<MacroScores> macro;  // of validation; empty in records of an older version
  // Of validation, where they are not top-1, top-5 and `macro`: the leading one first.
  std::vector<Figure> figures = {};
  double train_seconds = 0, valid_seconds = 0, data_wait_seconds = 0;
  std::optional<CommunicationTime> communication;  // of rank 0, if measured
  StepTimes times;                                 // sums over the steps of the epoch
  long long peak_memory_bytes = 0;                 // of rank 0, since its start
  long long peak_device_bytes = 0;                 // the same; 0: no GPU
  std::optional<GpuLoad> gpu;                      // of rank 0
  // CPU time of rank 0 / (wall time * compute threads), at most 1; 0: on a GPU.
  double cpu_share = 0;
  int bad_train_images = 0, bad_valid_images = 0;  // skipped since the run began
  // Steps that were skipped because gradients overflowed; only with float16.
  std::optional<int> skipped_steps;
  // Validation images whose bytes equal those of a training image; only in the first epoch.
  std::optional<long long> valid_in_train;
  std::vector<std::string> doubts = {};  // reasons not to trust the accuracy; likewise
};

// A confusion matrix takes memory quadratic in the number of classes.
inline constexpr std::size_t kMaxConfusionClasses = 2000;

// How many images of each class were predicted as which class.
struct ConfusionMatrix {
  int num_classes = 0;
  std::vector<std::int64_t> counts;  // [truth * num_classes + guess]; empty: too many classes

  bool empty() const { return counts.empty(); }
  std::int64_t at(int truth, int guess) const { return counts[place(truth, guess)]; }
  std::int64_t& at(int truth, int guess) { return counts[place(truth, guess)]; }

 private:
  std::size_t place(int truth, int guess) const {
    return static_cast<std::size_t>(truth) * num_classes + guess;
  }
};

// A matrix without images; without counts, too, for too many classes.
inline ConfusionMatrix empty_matrix(int num_classes) {
  const auto size = static_cast<std::size_t>(num_classes);
  return {num_classes, std::vector<std::int64_t>(size <= kMaxConfusionClasses ? size * size : 0)};
}

struct Thumbnail {
  int height = 0, width = 0;
  std::string jpeg;  // file contents; empty: none
};

// A class, as an index, and its probability.
struct ClassShare {
  int label = 0;
  double share = 0;
};

// An image and the model's prediction.
struct JudgedImage {
  std::string file;                   // as named in the dataset
  int truth = 0;                      // index into the classes
  int guess = 0;                      // the predicted class
  double confidence = 0;              // softmax of the guess, 0 to 1
  std::vector<ClassShare> best = {};  // the most probable classes, `guess` first; may be unknown
  Thumbnail thumbnail = {};
  Thumbnail heat_map = {};  // where in the image the model saw its answer
};

// A section with a table of plain texts, the first of each row its heading. `curves`: of each row,
// values from 0 to 1, evenly spaced, in a last column; `bins`: of each row's class, to count it
// from another confidence on. Both may be empty.
struct ResultTable {
  std::string id, heading, lead, caption;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows = {};
  std::vector<std::vector<double>> curves = {};
  std::vector<ConfidenceBins> bins = {};
};

// Whether the model learned, with the figure that says so. Without text: as top-1 says.
struct TaskVerdict {
  std::string text;
  bool has_learned = false;
};

// A gallery of images. `word`: what the class `guess` of each was, say, "missed"; empty: the
// answer.
struct PictureList {
  std::string id, heading, lead, word;
  std::vector<JudgedImage> images = {};
};

// Out-of-fold predictions: each fold is predicted by a model that was not trained on it.
struct OutOfFoldRecord {
  int folds = 0;               // 0: there are no such predictions
  bool is_validation = false;  // they serve as validation, as there are no validation images
  Totals totals;
};

// Validation details of the epoch whose model is kept.
struct ValidationDetails {
  int epoch = 0;  // 0: none
  ConfusionMatrix confusion;
  Calibration calibration;
  OutOfFoldRecord out_of_fold;
  // What the task has to tell beside these, as it is to be shown.
  std::vector<Figure> figures = {};
  std::vector<ResultTable> tables = {};
  TaskVerdict verdict = {};
  // Not in the record, but in a file of their own (picture_file.h).
  std::vector<PictureList> pictures = {};
};

// What --auto compared on the validation images, and what it kept.
struct AutomaticRecord {
  Totals frozen;        // the frozen network with its fitted head
  int tuned_epoch = 0;  // the best epoch of fine-tuning; 0: none
  Totals tuned;         // of that epoch
  bool keeps_tuned = false;
  std::string reason;  // both figures, what was kept, and why
};

struct ImageFaultRecord {
  std::string data_set;  // "training" or "validation"
  std::string file, fault;
  bool damaged = false;  // partly decoded, and used
};

}  // namespace kiln
