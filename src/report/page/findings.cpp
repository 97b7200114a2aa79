#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/text.h"
#include "report/page/page.h"

namespace kiln {
namespace {

// The state of training at its end; overfitting is that of the saved model. Exactly one applies, so
// that no two findings contradict each other.
enum class Trend { kNone, kDiverged, kOverfitting, kLossRising, kImproving, kSteady };

constexpr double kOverfitGap = 0.10;    // training accuracy above validation accuracy
constexpr double kLossRise = 1.05;      // last validation loss / lowest
constexpr double kStillRising = 0.005;  // top-1 gained in the last quarter of the epochs
constexpr int kFewestEpochsForTrends = 4;

// The epoch with the lowest validation loss; nullptr if no loss is a number.
const EpochRecord* lowest_loss(const std::vector<EpochRecord>& epochs) {
  const EpochRecord* lowest = nullptr;
  for (const EpochRecord& epoch : epochs)
    if (std::isfinite(epoch.valid.loss()) &&
        (lowest == nullptr || epoch.valid.loss() < lowest->valid.loss()))
      lowest = &epoch;
  return lowest;
}

// The first epoch whose loss is not a number; nullptr if there is none.
const EpochRecord* diverged_epoch(const std::vector<EpochRecord>& epochs) {
  for (const EpochRecord& epoch : epochs)
    if (!std::isfinite(epoch.train.loss()) || !std::isfinite(epoch.valid.loss())) return &epoch;
  return nullptr;
}

// Top-1 is still rising if the last epoch's is higher than that of this one, a quarter earlier.
const EpochRecord& earlier_epoch(const std::vector<EpochRecord>& epochs) {
  return epochs[epochs.size() - 1 - epochs.size() / 4];
}

Trend trend_of(const RunRecord& run, const RunSummary& summary) {
  const auto& epochs = run.epochs;
  if (epochs.empty()) return Trend::kNone;
  if (diverged_epoch(epochs) != nullptr) return Trend::kDiverged;
  if (epochs.size() < 2) return Trend::kNone;
  const EpochRecord &kept = *summary.kept, &last = *summary.last;
  const double train = kept.train.top1_accuracy(), valid = kept.valid.top1_accuracy();
  // A gap within the confidence interval of the validation accuracy may be due to chance.
  if (train - valid > kOverfitGap && train > summary.top1_interval.high) return Trend::kOverfitting;
  if (epochs.size() < kFewestEpochsForTrends) return Trend::kNone;
  const bool improves = summary.best == summary.last && summary.kept == summary.last &&
                        valid - earlier_epoch(epochs).valid.top1_accuracy() >= kStillRising;
  if (improves) return Trend::kImproving;
  const EpochRecord& lowest = *lowest_loss(epochs);
  if (last.epoch - lowest.epoch >= 2 && last.valid.loss() > kLossRise * lowest.valid.loss())
    return Trend::kLossRising;
  return Trend::kSteady;
}

// Thresholds beyond which something is worth mentioning.
constexpr double kWideInterval = 0.05;  // half the width of the confidence interval
constexpr double kWeakRecall = 0.5;     // recall of a class / overall accuracy
constexpr double kImbalance = 10;       // images of the largest class / the smallest
constexpr int kFewSteps = 20;           // per epoch

std::string percent_range(const Interval& interval) {
  return percent(interval.low) + " and " + percent(interval.high);
}

// Too few images were validated to tell small differences.
bool is_wide(const Interval& interval) {
  return interval.high - interval.low > 2 * kWideInterval;
}

// True if the accuracy is significantly above that of always predicting the largest class.
bool has_learned(const RunRecord& run, const RunSummary& summary) {
  if (const TaskVerdict& verdict = run.details.verdict; !verdict.text.empty())
    return verdict.has_learned;
  return summary.kept != nullptr && summary.largest_class >= 0 &&
         is_above_chance(summary.kept->valid.top1, summary.kept->valid.count,
                         summary.largest_share);
}

// Whether what is known of the images contradicts the accuracy.
bool is_doubted(const RunRecord& run) {
  return !run.epochs.empty() && !run.epochs.front().doubts.empty();
}

// Names the classes without validation images, if any: "“cat”, “cow”, “dog” and 2 more classes".
std::string unseen_classes(const DataRecord& data) {
  constexpr int kMaxNamed = 3;
  std::vector<std::string> names;
  for (std::size_t label = 0; label < data.valid_counts.size(); ++label)
    if (data.valid_counts[label] <= 0) names.push_back(quoted_class(data, static_cast<int>(label)));
  const auto more = std::ssize(names) - kMaxNamed;
  if (more <= 0) return joined(names, ", ");
  names.resize(kMaxNamed);
  return joined(names, ", ") + " and " + plural(more, "more class", "more classes");
}

// Whether the network began with weights that were trained before.
bool starts_from_weights(const RunRecord& run) {
  return std::ranges::count(run.start.plan, "weights", &TextPairs::value_type::first) > 0;
}

// Returns a sentence, with a leading space, on what the run did for small classes or, if nothing,
// what would help them.
std::string against_imbalance(const RunRecord& run) {
  const std::string weights = option_of(run.start, "class-weights");
  if (option_of(run.start, "sample") == "balanced")
    return " `--sample balanced` drew all classes equally often.";
  if (weights == "balanced" || weights == "sqrt")
    return " `--class-weights " + weights + "` gave images of small classes more weight.";
  if (weights.find('=') != weights.npos) return " `--class-weights` gave each class its weight.";
  return " To favor small classes, train with " + run.start.data.words.for_small_classes + ".";
}

class Finder {
 public:
  explicit Finder(const RunRecord& run) : run_(run), summary_(summary_of(run)) {}

  std::vector<Finding> all() {
    if (is_doubted(run_))
      for (const std::string& text : run_.epochs.front().doubts) doubt(Judged::kWarning, text);
    how_it_ended();
    if (summary_.kept != nullptr) {
      how_sure();
      trend();
      weakest_class();
      shortcuts();
    }
    class_counts();
    const DataRecord& data = run_.start.data;
    if (const double share = data.cut_away.value_or(0); share > kMuchCutAway && data.fit == "crop")
      warn("With `--fit crop`, " + cut_text(share) + ": `--fit pad` and `--fit stretch` show all.");
    if (const EpochRecord* last = summary_.last;
        last != nullptr && last->bad_train_images + last->bad_valid_images > 0)
      warn(formatted("%d training and %d validation images could not be decoded and were left out.",
                     last->bad_train_images, last->bad_valid_images));
    if (is_doubted(run_))
      std::erase_if(found_, [](auto& it) { return it.judged == Judged::kGood; });
    std::ranges::stable_sort(found_, std::ranges::greater{}, &Finding::judged);
    return std::move(found_);
  }

 private:
  void good(std::string text) { found_.push_back({Judged::kGood, std::move(text)}); }
  void note(std::string text) { found_.push_back({Judged::kNote, std::move(text)}); }
  void warn(std::string text) { found_.push_back({Judged::kWarning, std::move(text)}); }
  void doubt(Judged judged, std::string text) {
    found_.push_back({judged, std::move(text), /*doubts_accuracy=*/true});
  }

  void how_it_ended() {
    const RunEnd& end = run_.end;
    const std::string reached =
        formatted("%zu of ", run_.epochs.size()) + plural(run_.start.num_epochs, "epoch", "epochs");
    if (end.status == RunStatus::kFailed)
      warn("The run failed after " + reached + ": " + end.failure);
    else if (end.status == RunStatus::kStopped)
      warn("The run was stopped by a signal after " + reached + ".");
    else if (end.status == RunStatus::kRunning)
      warn("The run is still in progress, or it was killed. It has finished " + reached + ".");
    else if (end.stopped_early == "patience")
      note("Training stopped early, after " + reached +
           ": the validation loss did not fall for as many epochs as `--patience` allows.");
    else if (end.stopped_early == "time-limit")
      note("`--time-limit` ended training after " +
           plural(std::ssize(run_.epochs), "epoch", "epochs") +
           (!run_.epochs.empty() && run_.epochs.back().num_steps < run_.start.steps_per_epoch
                ? ", the last one incomplete"
                : "") +
           ".");
  }

  void how_sure() {
    const Totals& valid = summary_.kept->valid;
    const Interval interval = summary_.top1_interval;
    out_of_fold();
    const bool are_folds = run_.details.out_of_fold.is_validation;
    const std::string range = "With " + grouped(valid.count) +
                              (are_folds ? " images" : " validation images") + ", the true " +
                              run_.start.data.words.right + " lies between " +
                              percent_range(interval) + " with 95 % confidence";
    if (is_wide(interval))
      doubt(Judged::kWarning, range + ": too few images to tell small differences.");
    else
      good(range + ".");
    if (run_.epochs.size() > 1 && !are_folds && option_of(run_.start, "save") != "last")
      doubt(Judged::kNote,
            "The saved epoch was selected on these same images, so its accuracy is slightly "
            "optimistic; use a held-out test set for an unbiased estimate.");
  }

  void out_of_fold() {
    const OutOfFoldRecord& judged = run_.details.out_of_fold;
    if (judged.folds == 0) return;
    if (judged.is_validation)
      return good(
          formatted("Every image was judged by a last layer that was fitted only to other images, "
                    "in %d folds: the accuracy does not depend on the choice of validation images.",
                    judged.folds));
    note(formatted("In %d-fold cross-validation, ", judged.folds) +
         percent(judged.totals.top1_accuracy()) + " of the " + grouped(judged.totals.count) +
         " training images are classified correctly; the true share lies between " +
         percent_range(out_of_fold_interval(judged.totals.top1, judged.totals.count)) + ".");
  }

  void trend() {
    const EpochRecord& kept = *summary_.kept;
    const double train = kept.train.top1_accuracy(), valid = kept.valid.top1_accuracy();
    const Trend trend = trend_of(run_, summary_);
    if (trend == Trend::kDiverged) {
      warn(formatted("Training diverged: the loss is not a finite number from epoch %d on.",
                     diverged_epoch(run_.epochs)->epoch));
    } else if (trend == Trend::kOverfitting) {
      warn("It overfits: " + run_.start.data.words.right + " is " + percent(train) +
           " on training images and " + percent(valid) + " on validation images.");
    } else if (trend == Trend::kLossRising) {
      const EpochRecord& lowest = *lowest_loss(run_.epochs);
      note(formatted(
          "The validation loss was lowest in epoch %d (%.3f) and has risen to %.3f since.",
          lowest.epoch, lowest.valid.loss(), summary_.last->valid.loss()));
    } else if (trend == Trend::kImproving) {
      const EpochRecord& earlier = earlier_epoch(run_.epochs);
      note(
          formatted("It was still improving: the last epoch is the saved one, and %s rose by "
                    "%.1f points after epoch %d.",
                    run_.start.data.words.right.c_str(),
                    100 * (valid - earlier.valid.top1_accuracy()), earlier.epoch));
    } else if (trend == Trend::kSteady && has_learned(run_, summary_)) {
      good(
          "It does about as well on validation images as on training images: no sign of "
          "overfitting.");
    }
  }

  void weakest_class() {
    const std::vector<ClassScore> scores = class_scores(run_.details.confusion);
    const double weak = kWeakRecall * summary_.kept->valid.top1_accuracy();
    const auto num_weak = std::ranges::count_if(
        scores, [&](const ClassScore& score) { return score.recall() < weak; });
    if (num_weak == 0) return;
    const ClassScore& worst = scores.front();
    std::string text = "Of the images of " + quoted_class(run_.start.data, worst.label) + " only " +
                       percent(worst.recall()) + " are recognized";
    if (const int guess = most_often_taken_for(run_.details.confusion, worst.label); guess >= 0)
      text += "; most often they are predicted as " + quoted_class(run_.start.data, guess);
    if (num_weak > 1)
      text += formatted("; %td more %s recognized less than half as often as the average",
                        num_weak - 1, num_weak == 2 ? "class is" : "classes are");
    warn(text + ".");
  }

  void shortcuts() {
    const double model = summary_.kept->valid.top1_accuracy();
    const auto found = telling(run_.start.data.shortcuts, model - summary_.largest_share);
    if (!found.empty()) warn(shortcuts_text(found, model));
  }

  void class_counts() {
    const DataRecord& data = run_.start.data;
    if (data.train_counts.empty()) return;
    const auto [smallest, largest] = std::ranges::minmax_element(data.train_counts);
    const auto name = [&](auto place) {
      return quoted_class(data, static_cast<int>(place - data.train_counts.begin()));
    };
    if (data.train_counts.size() == 1 && *smallest == summary_.num_train)
      warn("There is only one class: every prediction is correct, and there is nothing to learn.");
    else if (*smallest == 0)
      warn(name(smallest) + " has no training images: it cannot be learned.");
    else if (*largest >= kImbalance * *smallest)
      warn("The classes are imbalanced: " + name(largest) + " has " + grouped(*largest) +
           " training images, " + name(smallest) + " " + grouped(*smallest) +
           ". Look at the recall of the small classes, not at the average." +
           against_imbalance(run_));
    const std::string unseen = unseen_classes(data);
    if (!unseen.empty())
      warn("No validation images of " + unseen + ": how well they are recognized is unknown.");
  }

  const RunRecord& run_;
  RunSummary summary_;
  std::vector<Finding> found_;
};

// What to try next, the most promising first.
class Adviser {
 public:
  explicit Adviser(const RunRecord& run)
      : run_(run), summary_(summary_of(run)), trend_(trend_of(run, summary_)) {}

  std::vector<std::string> all() {
    if (summary_.kept == nullptr) return {};
    if (run_.details.verdict.text.empty() && run_.start.data.classes.size() == 1)
      return {"Add images of a second class."};
    if (const std::string line = better_start(run_.start); !line.empty())
      add(line + ", which helps most with so few photos.");
    const DataRecord& data = run_.start.data;
    const auto& counts = data.train_counts;
    if (const auto empty = std::find(counts.begin(), counts.end(), 0); empty != counts.end())
      add("Add training images of " + quoted_class(data, static_cast<int>(empty - counts.begin())) +
          ", or remove the class.");
    if (const std::string unseen = unseen_classes(data); !unseen.empty())
      add("Add validation images of " + unseen + ".");
    if (summary_.num_valid_in_train > 0)
      add("Remove the shared images from either the training or the validation data.");
    if (summary_.last->bad_train_images + summary_.last->bad_valid_images > 0)
      add("Fix or remove the images that could not be decoded; they are listed below.");
    if (trend_ == Trend::kDiverged)
      add("Lower `--learning-rate` by a factor of 3 to 10, or add warm-up epochs with "
          "`--num-warmup-steps`.");
    else if (has_learned(run_, summary_))
      improve();
    else
      begin_to_learn();
    if (is_wide(summary_.top1_interval))
      add("Use more validation images: below about 400, differences of a few points are noise.");
    return std::move(steps_);
  }

 private:
  void add(std::string step) { steps_.push_back(std::move(step)); }

  // The option that ended training.
  std::string longer() const {
    return run_.end.stopped_early == "time-limit" ? "--time-limit" : "--epochs";
  }

  // For a model that is no better than a constant prediction: it had too few steps, a bad learning
  // rate, or too few images.
  void begin_to_learn() {
    if (option_of(run_.start, "freeze") == "backbone")
      return add(
          "Train all layers (`--freeze none`), or start from weights trained on more similar "
          "images: these features do not separate the classes.");
    const bool has_weights = starts_from_weights(run_);
    if (run_.start.steps_per_epoch > 0 && run_.start.steps_per_epoch < kFewSteps)
      add(formatted("An epoch has only %s: lower `--batch-size`%s.",
                    plural(run_.start.steps_per_epoch, "step", "steps").c_str(),
                    run_.start.num_ranks > 1 ? ", or use fewer ranks" : ""));
    if (trend_ != Trend::kOverfitting)
      add("Train longer (`" + longer() +
          "`), and try a `--learning-rate` 3 times higher and one 3 times "
          "lower.");
    else if (has_weights)
      add("Add training images, or start from weights trained on more similar images.");
    else
      add("Start from pretrained weights (`--model-name` with `--weights`), or add training "
          "images: these are too few to learn from scratch.");
    if (trend_ != Trend::kOverfitting && !has_weights && better_start(run_.start).empty())
      add("With fewer than a few hundred images per class, start from pretrained weights "
          "(`--model-name` with `--weights`).");
  }

  void improve() {
    const std::string& augment = run_.start.data.augment;
    if (trend_ == Trend::kImproving)
      add(longer() == "--epochs" ? "Train longer: try twice as many `--epochs`."
                                 : "Train longer: try twice the `--time-limit`.");
    if (trend_ == Trend::kOverfitting) {
      if (augment == "none" || augment == "flip" || augment == "standard")
        add(augment == "standard" ? "Use `--augment strong`." : "Use `--augment standard`.");
      add(starts_from_weights(run_) ? "Add training images."
                                    : "Add training images, or start from pretrained weights.");
    }
    // With --auto, the first epoch fits a head, and says nothing about the length of fine-tuning.
    const bool is_chosen = !run_.end.automatic && option_of(run_.start, "save") != "last";
    if ((trend_ == Trend::kOverfitting || trend_ == Trend::kLossRising) && is_chosen &&
        summary_.kept->epoch * 4 <= summary_.last->epoch * 3)
      add(formatted(
          "Use fewer `--epochs`, so that the schedule ends earlier: epoch %d of %d was saved.",
          summary_.kept->epoch, summary_.last->epoch));
  }

  const RunRecord& run_;
  RunSummary summary_;
  Trend trend_;
  std::vector<std::string> steps_;
};

}  // namespace

Finding verdict(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  if (summary.kept == nullptr)
    return {Judged::kWarning, "No epoch was finished, so there is no accuracy yet."};
  const Totals& valid = summary.kept->valid;
  if (valid.count == 0) return {Judged::kWarning, "No validation image could be decoded."};
  if (const TaskVerdict& found = run.details.verdict; !found.text.empty())
    return {!found.has_learned ? Judged::kWarning
            : is_doubted(run)  ? Judged::kNote
                               : Judged::kGood,
            (found.has_learned ? "It learned: " : "There is no evidence that it learned: ") +
                found.text};
  if (run.start.data.classes.size() == 1)
    return {Judged::kWarning, "There is only one class, so nothing was learned."};
  const std::string top1 = "top-1 is " + percent(valid.top1_accuracy());
  if (summary.largest_class < 0) return {Judged::kNote, "On the validation images " + top1 + "."};
  const std::string baseline = top1 + "; always predicting " +
                               quoted_class(run.start.data, summary.largest_class) + " gets " +
                               percent(summary.largest_share) + ".";
  if (has_learned(run, summary))
    return {is_doubted(run) ? Judged::kNote : Judged::kGood, "It learned: " + baseline};
  return {Judged::kWarning, "There is no evidence that it learned: " + baseline};
}

std::string better_start(const RunStart& start) {
  return value_of(start.plan, "better start");
}

std::vector<Finding> findings(const RunRecord& run) {
  return Finder(run).all();
}

std::vector<std::string> next_steps(const RunRecord& run) {
  return Adviser(run).all();
}

}  // namespace kiln
