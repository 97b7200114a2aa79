#include "report/console.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/platform/launch_environment.h"
#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr int kLeastBar = 8, kMaxBar = 24;

// Returns a bar of `width` columns; empty if that is fewer than kLeastBar.
std::string bar(double share, int width, bool utf8) {
  if (width < kLeastBar) return "";
  const int inside = width - 2;
  const int full = static_cast<int>(std::lround(share * inside));
  std::string text = "[";
  for (int i = 0; i < inside; ++i)
    text += i < full ? (utf8 ? "\u2588" : "#") : (utf8 ? "\u2591" : ".");
  return text + "]";
}

// Returns `title`, a bar, and the first of `ends` that leaves room for the bar; if none does, the
// last of `ends` without a bar.
std::string live_line(const std::string& title, double share, const std::vector<std::string>& ends,
                      const LiveLine& live) {
  const auto room = [&](const std::string& end) {
    return live.columns - static_cast<int>(title.size() + end.size());
  };
  const std::string& end =
      *std::find_if(ends.begin(), std::prev(ends.end()),
                    [&](const std::string& text) { return room(text) >= kLeastBar; });
  return title + bar(share, std::min(room(end), kMaxBar), live.utf8) + end;
}

std::string live_line(const StepRecord& at, const std::vector<std::string>& ends,
                      const LiveLine& live) {
  return live_line(formatted("epoch %d/%d ", at.epoch, at.num_epochs),
                   static_cast<double>(at.step) / at.num_steps, ends, live);
}

std::string left_text(double seconds) {
  return "  left " + (seconds < 60 ? formatted("%.0f s", seconds) : duration_text(seconds));
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLiveLines{100};
constexpr std::size_t kPlanColumn = 18, kResultColumn = 20;

std::string labeled(const std::string& label, std::size_t column, const std::string& text) {
  return label + std::string(column > label.size() ? column - label.size() : 1, ' ') + text;
}

int count_faults(const RunEnd& end, const std::string& data_set, bool damaged) {
  return static_cast<int>(std::ranges::count_if(end.image_faults, [&](const auto& fault) {
    return fault.data_set == data_set && fault.damaged == damaged;
  }));
}

// "68.3 % (95 % interval 55.8 to 78.7 %)".
std::string accuracy_text(double value, const Interval& interval) {
  return percent(value) +
         formatted(" (95 %% interval %.1f to %.1f %%)", 100 * interval.low, 100 * interval.high);
}

std::string figures_text(const std::vector<Figure>& figures) {
  std::vector<std::string> texts;
  texts.reserve(figures.size());
  for (const Figure& figure : figures)
    texts.push_back(short_title(figure) + " " + percent(figure.value));
  return joined(texts, ", ");
}

// Shown on a terminal in place of the epoch line, in 79 columns: `epoch 2: train loss 0.1160, top-1
// 95.62 %; valid loss 0.0283, top-1 98.00 %`.
std::string epoch_news(const EpochRecord& record) {
  const auto part = [&](const char* name, const Totals& totals) {
    return formatted("%s loss %.4f, %s %.2f %%", name, totals.loss(), counted_name(record).c_str(),
                     100 * totals.top1_accuracy());
  };
  return formatted("epoch %d: ", record.epoch) + part("train", record.train) + "; " +
         part("valid", record.valid);
}

// `learning rate 0.05, train images/s 512.31`, and with several ranks the time of all-reduce.
std::string rates_line(const EpochRecord& record) {
  std::string text = formatted("learning rate %g, train images/s %.2f", record.learning_rate,
                               record.train_images_per_second);
  if (const auto& time = record.communication; time && time->summing > 0)
    text += formatted(", all-reduce %.1f s (training waited %.1f s)", time->summing, time->waiting);
  return text;
}

class ConsoleSink : public RunSink {
 public:
  ConsoleSink(Log& log, std::filesystem::path page) : log_(log), page_(std::move(page)) {
    live_.utf8 = locale_is_utf8();
  }

  std::string_view name() const override { return "console"; }

  void start(const RunStart& start) override {
    live_.right = start.data.words.right;
    for (const auto& [label, text] : start.plan) log_.info(labeled(label + ":", kPlanColumn, text));
  }

  // Prints only the plan, because the log already contains everything before the interruption.
  void resume(const RunRecord& so_far) override {
    start(so_far.start);
    log_.info(labeled("resuming:", kPlanColumn, resume_text(so_far.interruptions.back())));
  }

  void planned(const PlannedLength& length) override {
    log_.info(labeled(std::string(kTimeLimitLabel) + ":", kPlanColumn, length.reason));
  }

  void step(const StepRecord& step) override {
    remember(step.so_far);
    log_.detail(iteration_line(step));
  }

  void progress(const StepRecord& timing) override {
    if (timing.so_far.count > 0) remember(timing.so_far);
    if (may_redraw()) log_.progress(progress_line(timing, live_));
  }

  void validating(const StepRecord& at) override {
    const std::string end = formatted(" %d/%d  validation", at.step, at.num_steps);
    if (may_redraw()) log_.progress(live_line(at, {end}, live_));
  }

  void epoch(const EpochRecord& epoch, const ValidationDetails* /*details*/) override {
    if (log_.on_terminal()) {
      log_.detail(epoch_line(epoch));
      log_.info(epoch_news(epoch));
    } else {
      log_.info(epoch_line(epoch));
    }
    log_.detail(rates_line(epoch));
  }

  void end(const RunRecord& run) override {
    if (kept_epoch(run) != nullptr && !run.end.model_path.empty())
      log_results(run);
    else
      for (const std::string& loss : run.losses) log_.info("lost: " + loss);
  }

 private:
  void remember(const Totals& so_far) {
    live_.loss = so_far.loss();
    live_.top1 = so_far.top1_accuracy();
  }

  // True at most ten times a second, and only on a terminal.
  bool may_redraw() {
    const auto now = Clock::now();
    if (!log_.on_terminal() || now - shown_ < kBetweenLiveLines) return false;
    shown_ = now;
    live_.columns = live_columns();
    return true;
  }

  void log_results(const RunRecord& run) {
    const RunEnd& end = run.end;
    log_.info("");
    for (const std::string& row : epoch_table(run.epochs, end.saved_epoch)) log_.info(row);
    log_.info("");
    log_.info("result");
    const auto result = [this](const std::string& label, const std::string& text) {
      log_.info(labeled("  " + label, kResultColumn, text));
    };
    result("saved epoch", formatted("%d of %zu", end.saved_epoch, run.epochs.size()) +
                              (end.stopped_early.empty() ? ""
                               : end.stopped_early == "time-limit"
                                   ? " (ended by --time-limit)"
                                   : " (stopped early: " + end.stopped_early + ")"));
    if (end.automatic) result("kept by --auto", end.automatic->reason);
    const RunSummary summary = summary_of(run);
    const Totals& valid = summary.kept->valid;
    for (const Figure& figure : summary.kept->figures)
      if (!figure.is_counted) result(short_title(figure), percent(figure.value));
    if (const std::string text = figures_text(run.details.figures); !text.empty())
      result("at thresholds", text + ", fitted on these images");
    result(run.start.data.words.right + " accuracy",
           accuracy_text(valid.top1_accuracy(), summary.top1_interval) +
               (summary.largest_class < 0 ? "" : "; guessing " + percent(summary.largest_share)));
    if (has_top5(run.start.data))
      result("top-5 accuracy", accuracy_text(valid.top5_accuracy(), summary.top5_interval));
    if (const auto& macro = summary.kept->macro)
      result("macro recall", percent(macro->recall) +
                                 formatted(", macro F1 %.3f (means over the classes)", macro->f1));
    result("validation loss", formatted("%.5f", valid.loss()));
    const OutOfFoldRecord& judged = run.details.out_of_fold;
    if (judged.folds > 0)
      result("out of fold",
             accuracy_text(judged.totals.top1_accuracy(),
                           out_of_fold_interval(judged.totals.top1, judged.totals.count)) +
                 formatted(" of %s training images, in %d folds",
                           grouped(judged.totals.count).c_str(), judged.folds));
    const Calibration& calibration = run.details.calibration;
    const auto uncalibrated =
        std::ranges::count_if(calibration.labels, is_at_limit, &LabelCalibration::temperature);
    if (uncalibrated > 0)
      result("confidence", "of " + plural(uncalibrated, "class", "classes") +
                               " cannot be calibrated: do not rely on it");
    if (!calibration.answers.empty() && is_at_limit(calibration.temperature))
      result("confidence", "cannot be calibrated: do not rely on it");
    else if (!calibration.answers.empty())
      result(
          "temperature",
          formatted("%.3f (of the softmax, fitted on the %s images, so slightly optimistic there)",
                    calibration.temperature, judged.folds > 0 ? "out-of-fold" : "validation"));
    result("images/s", formatted("%.1f", summary.images_per_second));
    if (run.start.data.augment != "none") result("augmentation", run.start.data.augment);
    result("total time",
           duration_text(end.total_seconds) +
               formatted(" (first step after %.2f s)", end.start_to_first_step_seconds));
    if (const std::string cost = cost_text(run); !cost.empty()) result("cost", cost);
    if (const std::string text = interruptions_text(run); !text.empty()) result("resumed", text);
    result("peak memory", peak_memory_text(end));
    if (const std::string load = load_text(run.epochs); !load.empty()) result("load", load);
    result("bad images",
           formatted("%d training, %d validation; damaged but used: %d, %d",
                     count_faults(end, "training", false), count_faults(end, "validation", false),
                     count_faults(end, "training", true), count_faults(end, "validation", true)));
    result("model", place(end.model_path));
    if (!end.replaced.empty()) result("replaced", end.replaced);
    if (std::ranges::count(run.whole_sinks, kReportName) > 0) result("report", place(page_));
    for (const std::string& loss : run.losses) result("lost", loss);
    for (const Finding& finding : findings(run))
      if (finding.doubts_accuracy) result("caution", finding.text);
    if (const std::string line = better_start(run.start); !line.empty()) result("next", line);
    result("next",
           "kiln score photo.jpg" + (end.model_path == "model"
                                         ? ""
                                         : " --trained-model-path " + shell_word(end.model_path)));
    log_.info("  " + verdict(run).text);
  }

  // In a container, one looks for it from outside.
  static std::string place(const std::filesystem::path& path) {
    return is_lost_with_container("/") ? std::filesystem::absolute(path).string() : path.string();
  }

  Log& log_;
  std::filesystem::path page_;
  LiveLine live_;
  Clock::time_point shown_;
};

std::string rate_text(double images_per_second) {
  return "  " + plural(std::llround(images_per_second), "image/s", "images/s");
}

}  // namespace

std::string iteration_line(const StepRecord& record) {
  return formatted("Epoch: [%d/%d]\tIter: [%d/%d]\t", record.epoch, record.num_epochs, record.step,
                   record.num_steps) +
         formatted("Avg_Time_Batch/Avg_Time_Epoch(s): %.3f/%.3f\t", record.batch_seconds,
                   record.epoch_seconds) +
         formatted("Avg_Ips_Batch/Avg_Ips_Epoch(img/s): %.4f/%.4f\t",
                   record.batch_images_per_second, record.epoch_images_per_second) +
         formatted("Avg_Loss_Batch/Avg_Loss_Epoch: %.4f/%.4f\t", record.batch.loss(),
                   record.so_far.loss()) +
         formatted("Avg_Error_Batch/Avg_Error_Epoch: %.4f/%.4f", 1 - record.batch.top1_accuracy(),
                   1 - record.so_far.top1_accuracy());
}

std::string epoch_line(const EpochRecord& record) {
  std::string line = formatted("Epoch %d,train_ips %.2f,train_loss %.6f,train_error %.6f,",
                               record.epoch, record.average_images_per_second, record.train.loss(),
                               1 - record.train.top1_accuracy()) +
                     formatted("valid_loss %.5f", record.valid.loss());
  for (const Figure& figure : figures_of(record))
    if (!figure.line.empty()) line += formatted(",%s %.5f", figure.line.c_str(), figure.value);
  return line;
}

std::string progress_line(const StepRecord& timing, const LiveLine& live) {
  const std::string begin = formatted(" %d/%d", timing.step, timing.num_steps);
  const std::string rate = rate_text(timing.epoch_images_per_second);
  const bool has_trained = !std::isnan(live.top1);
  const std::string loss = has_trained ? formatted("  loss %.4f", live.loss) : "";
  const std::string top1 =
      has_trained ? formatted("  %s %.1f %%", live.right.c_str(), 100 * live.top1) : "";
  const std::string wait = formatted("  data wait %.0f %%", 100 * timing.data_wait_share);
  const std::string left = timing.seconds_left ? left_text(*timing.seconds_left) : "";
  return live_line(timing,
                   {begin + rate + loss + top1 + wait + left, begin + rate + loss + top1 + left,
                    begin + rate + top1 + left, begin + rate + left, begin + left},
                   live);
}

std::string scoring_line(long long done, long long total, double seconds, const LiveLine& live,
                         long long before) {
  const double per_second = seconds > 0 ? static_cast<double>(done - before) / seconds : 0;
  const std::string rate = rate_text(per_second);
  if (total == 0) return grouped(done) + " images" + rate;
  const std::string begin = " " + grouped(done) + "/" + grouped(total) + " images";
  const std::string left = per_second > 0 ? left_text((total - done) / per_second) : "";
  const double share = static_cast<double>(done) / static_cast<double>(total);
  return live_line("", share, {begin + rate + left, begin + left}, live);
}

std::vector<std::string> epoch_table(const std::vector<EpochRecord>& epochs, int saved_epoch) {
  constexpr std::size_t kMaxRows = 20;
  const std::string right = epochs.empty() ? "top-1" : counted_name(epochs.front());
  std::vector<std::string> rows = {
      formatted("  epoch  learning rate  train loss %9s  valid loss %9s  images/s", right.c_str(),
                right.c_str())};
  const std::size_t stride =
      epochs.size() <= kMaxRows ? 1 : (epochs.size() + kMaxRows - 3) / (kMaxRows - 2);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const EpochRecord& epoch = epochs[i];
    const bool kept = epoch.epoch == saved_epoch;
    if (i % stride != 0 && i + 1 != epochs.size() && !kept) continue;
    rows.push_back(formatted("%s %5d %14.4g %11.4f %7.2f %% %11.4f %7.2f %% %9.1f",
                             kept ? "*" : " ", epoch.epoch, epoch.learning_rate, epoch.train.loss(),
                             100 * epoch.train.top1_accuracy(), epoch.valid.loss(),
                             100 * epoch.valid.top1_accuracy(), epoch.train_images_per_second));
  }
  if (std::ranges::count(epochs, saved_epoch, &EpochRecord::epoch) > 0)
    rows.emplace_back("* the epoch whose weights were saved");
  return rows;
}

std::unique_ptr<RunSink> make_console(Log& log, const std::filesystem::path& page) {
  return std::make_unique<ConsoleSink>(log, page);
}

}  // namespace kiln
