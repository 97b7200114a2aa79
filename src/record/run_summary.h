// Summary of a run record: metrics with confidence intervals, per-class scores, display names, and
// the metrics that every sink gets.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/run_record.h"

namespace kiln {

// `part` of `whole`; NaN if `whole` is 0.
template <typename Part>
double share_of(Part part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : NAN;
}

// The unweighted mean of `value` over the items for which it is a number; NaN if there are none.
template <typename Items, typename Value>
double mean_of(const Items& items, Value&& value) {
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& item : items)
    if (const double one = value(item); !std::isnan(one)) sum += one, ++count;
  return share_of(sum, count);
}

// The uncertainty of an accuracy measured on a sample of images.
struct Interval {
  double low = 0, high = 1;
};

// The 95 % Wilson score interval of a proportion, observed as `hits` of `count`. E. B. Wilson,
// Probable Inference, the Law of Succession, and Statistical Inference, Journal of the American
// Statistical Association 22 (1927): it stays within 0 and 1, and is valid for few images and
// proportions near 1. 0 to 1 for a count of 0.
Interval wilson_interval(std::int64_t hits, std::int64_t count);

// The same for predictions out of folds, of models that share most of their training images: their
// errors spread further than those of independent images. S. Bates, T. Hastie and R. Tibshirani,
// Cross-Validation: What Does It Estimate and How Well Does It Do It?, arXiv:2104.00673. Two thirds
// of the images count; measured with bench/trust.py (docs/few-photos.md).
Interval out_of_fold_interval(std::int64_t hits, std::int64_t count);

// How many independent images tell as much as the validation images of an epoch of the run.
double independent_images(const RunRecord& run, const EpochRecord& epoch);

// Whether models that agree out of folds with `agreed` of `judged` labels know the classes well
// enough to doubt one: if they agree with at least half of all such labels, by the lower end of the
// interval. If not, no label counts as wrong.
inline bool can_judge_labels(std::int64_t agreed, std::int64_t judged) {
  return out_of_fold_interval(agreed, judged).low >= 0.5;
}

// Whether `hits` of `count` are significantly more than the share `guessing`: the exact binomial
// test, one-sided at this level (C. J. Clopper and E. S. Pearson, The Use of Confidence or Fiducial
// Limits, Biometrika 26, 1934). The lower bound of Wilson's interval is too high for few hits.
bool is_above_chance(std::int64_t hits, std::int64_t count, double guessing, double level = 0.025);

// The main figures of a run, for reports and comparisons. The epochs are null before the end of the
// first one.
struct RunSummary {
  // The epoch that all statements about the model are about: kept_epoch(), or else the best one.
  const EpochRecord* kept = nullptr;
  const EpochRecord* best = nullptr;  // best top-1; ties broken by the lowest validation loss
  const EpochRecord* last = nullptr;
  Interval top1_interval, top5_interval;  // of the kept epoch; out of folds if those validate
  double images_per_second = 0;           // over all training time; 0: unknown
  double seconds = 0;                     // of the run so far
  StepTimes times;                        // sums over the epochs
  double train_seconds = 0, valid_seconds = 0;
  int largest_class = -1;                  // of the validation images; -1: counts unknown
  double largest_share = 0;                // its share: the accuracy of always predicting it
  long long num_train = 0, num_valid = 0;  // images
  long long num_valid_in_train = 0;  // validation images that are also training images, by content
};

// Points into `run`.
RunSummary summary_of(const RunRecord& run);

// The epoch whose model was saved, or will be if no later one is better; nullptr if the record
// names none. Points into `run`.
const EpochRecord* kept_epoch(const RunRecord& run);

// The figures of an epoch by which its model is judged, the leading one first:
// EpochRecord::figures, or top-1, top-5 and the macro scores.
std::vector<Figure> figures_of(const EpochRecord& epoch);
// What Totals::top1 counts, in a word.
std::string counted_name(const EpochRecord& epoch);
// "macro F1" of the title "Validation/macro F1".
std::string short_title(const Figure& figure);
// What the epoch is judged by.
JudgedEpoch judged(const EpochRecord& epoch, BestBy by);

// Whether top-5 says anything: with 5 classes or fewer every answer is right.
inline bool has_top5(const DataRecord& data) {
  return data.words.right == TaskWords().right && data.classes.size() > 5;
}

inline Interval top1_interval(const Totals& totals) {
  return wilson_interval(totals.top1, totals.count);
}
inline Interval top5_interval(const Totals& totals) {
  return wilson_interval(totals.top5, totals.count);
}

double last_time(const RunRecord& run);  // of the last record, in Unix seconds

// Seconds without a new record after which a job whose process cannot be checked is considered
// dead: long compared with the gaps between its records, which include whole validations.
double plausible_silence(const RunRecord& run);

// Seconds between a run's interruptions and its resumes, as far as the record shows.
double idle_seconds(const RunRecord& run);

// "epoch 3, step 120, from a checkpoint of 2026-03-01 14:05 UTC; 40 steps (2 min 3 s) to repeat".
std::string resume_text(const Interruption& interruption);
// "once", "2 times; 40 steps (2 min 3 s) repeated"; empty without interruptions.
std::string interruptions_text(const RunRecord& run);

std::string status_text(const RunEnd& end);    // "finished", "stopped early", …
std::string run_title(const RunStart& start);  // "resnet18 on cifar10-small": model, data folder

// "2.1 GiB, GPU 21 GiB".
std::string peak_memory_text(const RunEnd& end);

// "a center crop cuts away 43.8 % of a typical image". Much is more than a third, which a square
// crop takes from a photo of 3:2, whatever its sides were rounded to.
std::string cut_text(double share);
inline constexpr double kMuchCutAway = 0.34;

// Those that tell more than half of what the model gains over always predicting the largest class,
// as a share of all labels; facts together only if none does so alone.
std::vector<Shortcut> telling(std::vector<Shortcut> shortcuts, double model_gain);
// Sentences on telling() shortcuts, of which there is one at least. `model`: its accuracy.
std::string shortcuts_text(const std::vector<Shortcut>& shortcuts, double model);

// Device load averaged over the epochs. `gpu`: utilization, 0 to 1; empty if there is no GPU or it
// does not tell, as in MIG slices. `cpu`: the share of processor time that the compute threads got.
struct MeanLoad {
  std::optional<double> gpu = {};
  double watts = 0, cpu = 0;
};
MeanLoad mean_load(const std::vector<EpochRecord>& epochs);

// The same in words: "GPU 91 %, 350 W", or on a CPU the share of processor time
// that the compute threads got. Empty if not measured.
std::string load_text(const std::vector<EpochRecord>& epochs);

std::string csv_row(std::vector<std::string> fields);  // with its line end
std::string percent(double share);          // "71.3 %"; "100 %" and "0 %" only for exact values
std::string utc_text(double unix_seconds);  // "2026-03-01 14:05 UTC"

// `text` made printable, and truncated to `most` characters with an ellipsis.
std::string shortened(std::string_view text, std::size_t most);

// The name of class `label`, made printable, at most 40 characters; "class 7" if the record has no
// name for it.
std::string class_name(const DataRecord& data, int label);
// The same in quotes. On a page, prose() keeps a right-to-left name from reordering the sentence; a
// console gets no invisible characters.
std::string quoted_class(const DataRecord& data, int label);
// The count of class `label`; 0 if there is none.
long long count_of(const std::vector<long long>& counts, int label);

// Statistics of one class: of a confusion matrix or, if an image may have several, of what is
// predicted from the class's threshold on.
struct ClassScore {
  int label = 0;             // index into the classes
  std::int64_t images = 0;   // of this class
  std::int64_t guesses = 0;  // images predicted as this class, correctly or not
  std::int64_t hits = 0;
  double average_precision = NAN;  // of several labels, if an image has the class
  double recall() const { return share_of(hits, images); }
  double precision() const { return share_of(hits, guesses); }
  // The harmonic mean of the two; NaN if there are neither images nor predictions.
  double f1() const { return share_of(2 * hits, images + guesses); }
};

// In label order; empty for an empty matrix.
std::vector<ClassScore> scores_by_label(const ConfusionMatrix& matrix);
// Worst recall first, then more images first; classes without images last.
std::vector<ClassScore> class_scores(const ConfusionMatrix& matrix);

// The most frequent wrong prediction for images of class `truth`; -1: none.
int most_often_taken_for(const ConfusionMatrix& matrix, int truth);

struct Confusion {
  int truth = 0, guess = 0;
  std::int64_t images = 0;
};

// The `most` most frequently confused pairs of classes.
std::vector<Confusion> worst_confusions(const ConfusionMatrix& matrix, std::size_t most);

// A matrix of at most `most` rows. If there are more classes, keeps those with the most errors
// (false negatives and false positives) and combines all others in the last row and column.
struct CondensedMatrix {
  ConfusionMatrix counts;
  std::vector<int> labels;  // class of each row; none for the combined row
  int num_others = 0;       // classes combined in the last row; 0: no such row
};
CondensedMatrix condensed(const ConfusionMatrix& matrix, int most);

// The value of a run's option; empty if it has none of that name.
std::string option_of(const RunStart& start, std::string_view name);

// The price of an hour of all machines of the run together, in the user's currency; 0 if unknown.
// The record need not be trusted.
double price_per_hour(const RunStart& start);
std::string price_text(double price);  // "12.30"; with more decimals for small prices, "0.0042"
// "12.30 (4 h 01 min at 3.06 an hour)", for the time that the run was running. If epochs remain,
// adds an estimate for the whole run from those so far. Empty if unknown.
std::string cost_text(const RunRecord& run);

struct Metric {
  std::string name;  // letters, digits, '-', '/' and space, as allowed by MLflow and TensorBoard
  double value = 0;  // may be NaN or infinite
};

std::vector<Metric> epoch_metrics(const EpochRecord& epoch);  // indexed by epoch number
std::vector<Metric> step_metrics(const StepRecord& step);     // indexed by global_step()
// Steps since training began, from 1.
inline long long global_step(const StepRecord& step) {
  return static_cast<long long>(step.epoch - 1) * step.num_steps + step.step;
}

// Whether a run's record keeps a printed step; `last` is the one that it kept before. It keeps all
// at first, and in the end one in every 1/4000 of the steps so far: it grows with the logarithm of
// the run's length, to some 25,000 steps after ten million.
inline bool is_recorded(const StepRecord& step, const std::optional<StepRecord>& last) {
  constexpr long long kShare = 4000;
  const long long now = global_step(step), gap = last ? now - global_step(*last) : now;
  return gap <= 0 || gap >= now / kShare;
}

// The metrics that Amazon SageMaker parses from epoch_line() (report/console.h): a JSON list of
// {"Name", "Regex"}, as MetricDefinitions of a training job; the first group is the value.
std::string metric_definitions();

}  // namespace kiln
