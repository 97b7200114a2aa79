#include "report/page/page.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/record/run_summary.h"

namespace kiln {
namespace {

// From where on something is worth a sentence.
constexpr double kWideInterval = 0.05;  // half of it
constexpr double kMemorised = 0.10;     // training accuracy above validation accuracy
constexpr double kLossRise = 1.05;      // last validation loss over the lowest
constexpr double kStillRising = 0.005;  // top-1 gained in the last quarter of the epochs
constexpr double kWeakRecall = 0.5;     // of a class, over the overall accuracy
constexpr double kImbalance = 10;       // largest over smallest class
constexpr int kFewestEpochsForTrends = 4;

std::string percent_range(const Interval& interval) {
  return percent(interval.low) + " and " + percent(interval.high);
}

class Finder {
 public:
  explicit Finder(const RunRecord& run) : run_(run), summary_(summary_of(run)) {}

  std::vector<Finding> all() {
    how_it_ended();
    if (summary_.best != nullptr) {
      not_finite();
      how_sure();
      memorised();
      still_rising();
      weakest_class();
    }
    class_counts();
    bad_images();
    std::stable_sort(found_.begin(), found_.end(), [](const Finding& a, const Finding& b) {
      return static_cast<int>(a.judged) > static_cast<int>(b.judged);
    });
    return std::move(found_);
  }

 private:
  void good(std::string text) { found_.push_back({Judged::kGood, std::move(text)}); }
  void note(std::string text) { found_.push_back({Judged::kNote, std::move(text)}); }
  void warn(std::string text) { found_.push_back({Judged::kWarning, std::move(text)}); }

  void how_it_ended() {
    const RunEnd& end = run_.end;
    const std::string reached =
        formatted("%zu of %d epochs", run_.epochs.size(), run_.start.num_epochs);
    if (end.status == RunStatus::kFailed)
      warn("The run failed after " + reached + ": " + end.failure);
    else if (end.status == RunStatus::kStopped)
      warn("The run was stopped by a signal after " + reached + ".");
    else if (end.status == RunStatus::kRunning)
      warn("Nothing says how the run ended: it still runs, or it was killed. It has finished " +
           reached + ".");
    else if (end.stopped_early == "patience")
      note("Training stopped early, after " + reached +
           ": the validation loss had not fallen for as many epochs as `--patience` allows.");
  }

  void not_finite() {
    for (const EpochRecord& epoch : run_.epochs) {
      if (std::isfinite(epoch.train.loss()) && std::isfinite(epoch.valid.loss())) continue;
      warn(
          formatted("The loss is no longer a number from epoch %d on: training has diverged. A "
                    "lower `--learning-rate`, or warm-up, is the usual cure.",
                    epoch.epoch));
      return;
    }
  }

  void how_sure() {
    const Totals& valid = summary_.best->valid;
    const Interval interval = top1_interval(valid);
    const std::string range = "With " + grouped(valid.count) +
                              " validation images, the true top-1 lies between " +
                              percent_range(interval) + " with a confidence of 95 %";
    if (interval.high - interval.low > 2 * kWideInterval)
      warn(range + ": too few images to tell small differences.");
    else
      good(range + ".");
    if (run_.epochs.size() > 1)
      note(
          "The best epoch was chosen by these same images, so its accuracy is a little too "
          "hopeful; images that were never looked at would tell the rest.");
  }

  void memorised() {
    const EpochRecord& last = *summary_.last;
    const double gap = last.train.top1_accuracy() - last.valid.top1_accuracy();
    const EpochRecord* lowest = lowest_loss();
    const bool rose = lowest != nullptr && last.epoch - lowest->epoch >= 2 &&
                      std::isfinite(last.valid.loss()) &&
                      last.valid.loss() > kLossRise * lowest->valid.loss();
    if (gap > kMemorised)
      warn(formatted(
          "It knows its training images (%s right) better than new ones (%s): it overfits. More "
          "images, `--augment standard` or `strong`, or fewer epochs would help.",
          percent(last.train.top1_accuracy()).c_str(),
          percent(last.valid.top1_accuracy()).c_str()));
    else if (rose)
      note(formatted(
          "The validation loss was lowest in epoch %d (%.3f) and has risen to %.3f since.",
          lowest->epoch, lowest->valid.loss(), last.valid.loss()));
    else if (run_.epochs.size() >= kFewestEpochsForTrends)
      good(
          "It does about as well on new images as on those it learned from: no sign of "
          "overfitting.");
  }

  // Of validation; null where no loss is a number.
  const EpochRecord* lowest_loss() const {
    const EpochRecord* lowest = nullptr;
    for (const EpochRecord& epoch : run_.epochs)
      if (std::isfinite(epoch.valid.loss()) &&
          (lowest == nullptr || epoch.valid.loss() < lowest->valid.loss()))
        lowest = &epoch;
    return lowest;
  }

  void still_rising() {
    const auto& epochs = run_.epochs;
    if (epochs.size() < kFewestEpochsForTrends || summary_.best != summary_.last) return;
    const EpochRecord& earlier = epochs[epochs.size() - 1 - epochs.size() / 4];
    const double gained = summary_.last->valid.top1_accuracy() - earlier.valid.top1_accuracy();
    if (gained < kStillRising) return;
    note(
        formatted("The last epoch was the best, and top-1 rose by %.1f points after epoch %d: "
                  "more `--epochs` would probably do better.",
                  100 * gained, earlier.epoch));
  }

  void weakest_class() {
    const std::vector<ClassScore> scores = class_scores(run_.details.confusion);
    if (scores.empty() || scores.front().images == 0) return;
    const ClassScore& worst = scores.front();
    const double weak = kWeakRecall * summary_.best->valid.top1_accuracy();
    const auto num_weak = std::count_if(scores.begin(), scores.end(), [&](const ClassScore& score) {
      return score.recall() < weak;
    });
    if (num_weak == 0) return;
    std::string text = "Of the images of " + quoted_class(run_.start.data, worst.label) + " only " +
                       percent(worst.recall()) + " are recognised";
    if (const int guess = most_often_taken_for(run_.details.confusion, worst.label); guess >= 0)
      text += ", most others are taken for " + quoted_class(run_.start.data, guess);
    if (num_weak > 1)
      text += formatted("; of %td more classes less than half as many as on average", num_weak - 1);
    warn(text + ".");
  }

  void class_counts() {
    const DataRecord& data = run_.start.data;
    if (data.train_counts.empty()) return;
    const auto [smallest, largest] =
        std::minmax_element(data.train_counts.begin(), data.train_counts.end());
    const auto name = [&](auto place) {
      return quoted_class(data, static_cast<int>(place - data.train_counts.begin()));
    };
    if (data.train_counts.size() == 1)
      warn("There is only one class: every answer is right, and nothing can be learned.");
    else if (*smallest == 0)
      warn(name(smallest) + " has no training images: it cannot be learned.");
    else if (*largest >= kImbalance * *smallest)
      warn("The classes are uneven: " + name(largest) + " has " + grouped(*largest) +
           " training images, " + name(smallest) + " " + grouped(*smallest) +
           ". Look at the recall of the small classes, not at the average.");
    const auto unseen = std::count(data.valid_counts.begin(), data.valid_counts.end(), 0);
    if (unseen > 0)
      warn(formatted("%s %s no validation images: nothing is known of how well %s recognised.",
                     unseen == 1 ? "One class" : (std::to_string(unseen) + " classes").c_str(),
                     unseen == 1 ? "has" : "have", unseen == 1 ? "it is" : "they are"));
  }

  void bad_images() {
    int train = 0, valid = 0;
    if (summary_.last != nullptr) {
      train = summary_.last->bad_train_images;
      valid = summary_.last->bad_valid_images;
    }
    if (train + valid == 0) return;
    warn(formatted("%d training and %d validation images could not be decoded and were left out.",
                   train, valid));
  }

  const RunRecord& run_;
  RunSummary summary_;
  std::vector<Finding> found_;
};

std::string biggest_cost(const StepTimes& times, double train, double all, double validation) {
  if (times.data_wait > 0.1 * train)
    return percent(times.data_wait / train) +
           " of each training step waited for images: more `--loader-threads`, `--cache` or `kiln "
           "pack` would help; see Performance in the README.";
  if (times.communication > 0.15 * train)
    return percent(times.communication / train) +
           " of each training step waited for sums over the ranks: `--gradient-dtype bf16`, "
           "`--accumulate` or a larger `--batch-size` would help.";
  if (validation > 0.4 * all)
    return percent(validation / all) +
           " of the time went into validation: a smaller validation set would do.";
  return "";
}

}  // namespace

Finding verdict(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  if (summary.best == nullptr)
    return {Judged::kWarning, "No epoch was finished, so there is no accuracy yet."};
  const Totals& valid = summary.best->valid;
  const std::string right = percent(valid.top1_accuracy());
  if (valid.count == 0) return {Judged::kWarning, "No validation image could be looked at."};
  if (run.start.data.classes.size() == 1)
    return {Judged::kWarning, "There is only one class, so nothing was learned."};
  const Interval interval = top1_interval(valid);
  if (summary.largest_class < 0)
    return {Judged::kNote, "It recognises " + right + " of the validation images."};
  const std::string guessing = "always answering " +
                               quoted_class(run.start.data, summary.largest_class) + " would get " +
                               percent(summary.largest_share);
  if (interval.low > summary.largest_share)
    return {Judged::kGood,
            "It learned: " + right + " of the validation images are recognised; " + guessing + "."};
  return {Judged::kWarning, "Nothing shows that it has learned: " + right +
                                " of the validation images are recognised, and " + guessing + "."};
}

std::vector<Finding> findings(const RunRecord& run) {
  return Finder(run).all();
}

std::string time_finding(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  const double all = summary.train_seconds + summary.valid_seconds;
  if (!(all > 0)) return "";
  const StepTimes& times = summary.times;
  std::string cost = biggest_cost(times, summary.train_seconds, all, summary.valid_seconds);
  if (!cost.empty()) return cost;
  return "Images were there when they were needed: " +
         percent(std::max(0.0, 1 - times.data_wait / summary.train_seconds)) +
         " of training time went into computing. A faster device, more ranks or a smaller model is "
         "what would make it faster.";
}

}  // namespace kiln
