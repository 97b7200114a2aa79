#include "report/sinks.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/log.h"
#include "base/text.h"
#include "record/run_summary.h"
#include "report/log_lines.h"
#include "report/page/page.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLiveLines{100};
constexpr std::size_t kPlanColumn = 18, kResultColumn = 20;

std::string labeled(const std::string& label, std::size_t column, const std::string& text) {
  return label + std::string(column > label.size() ? column - label.size() : 1, ' ') + text;
}

int count_faults(const RunEnd& end, const std::string& data_set, bool damaged) {
  return static_cast<int>(std::count_if(
      end.image_faults.begin(), end.image_faults.end(), [&](const ImageFaultRecord& fault) {
        return fault.data_set == data_set && fault.damaged == damaged;
      }));
}

// "68.3 % (95 % interval 55.8 to 78.7 %)".
std::string accuracy_text(double value, const Interval& interval) {
  return percent(value) +
         formatted(" (95 %% interval %.1f to %.1f %%)", 100 * interval.low, 100 * interval.high);
}

std::string baseline_text(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  return summary.largest_class < 0 ? "" : "; guessing " + percent(summary.largest_share);
}

class Console : public RunSink {
 public:
  Console(Log& log, std::filesystem::path page) : log_(log), page_(std::move(page)) {
    live_.utf8 = locale_is_utf8();
  }

  std::string_view name() const override { return "console"; }

  void start(const RunStart& start) override {
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
    if (may_redraw()) log_.progress(validation_line(at, live_));
  }

  void epoch(const EpochRecord& epoch, const ValidationDetails* /*details*/) override {
    log_.detail(epoch_line(epoch));
    log_.detail(rates_line(epoch));
    if (log_.on_terminal()) log_.info(epoch_news(epoch));
  }

  void end(const RunRecord& run) override {
    const bool has_model = kept_epoch(run) != nullptr && !run.end.model_path.empty();
    if (has_model)
      tell_results(run);
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

  void tell_results(const RunRecord& run) {
    const RunEnd& end = run.end;
    log_.info("");
    for (const std::string& row : epoch_table(run.epochs, end.saved_epoch)) log_.info(row);
    log_.info("");
    log_.info("result");
    const auto result = [this](const std::string& label, const std::string& text) {
      log_.info(labeled("  " + label, kResultColumn, text));
    };
    result("saved epoch",
           formatted("%d of %zu", end.saved_epoch, run.epochs.size()) +
               (end.stopped_early.empty() ? "" : " (stopped early: " + end.stopped_early + ")"));
    if (end.automatic) result("kept by --auto", end.automatic->reason);
    const Totals& valid = kept_epoch(run)->valid;
    result("top-1 accuracy",
           accuracy_text(valid.top1_accuracy(), top1_interval(valid)) + baseline_text(run));
    if (has_top5(run.start.data))
      result("top-5 accuracy", accuracy_text(valid.top5_accuracy(), top5_interval(valid)));
    if (const auto& macro = kept_epoch(run)->macro)
      result("macro recall", percent(macro->recall) +
                                 formatted(", macro F1 %.3f (means over the classes)", macro->f1));
    result("validation loss", formatted("%.5f", valid.loss()));
    const OutOfFoldRecord& judged = run.details.out_of_fold;
    if (judged.folds > 0)
      result("out of fold",
             accuracy_text(judged.totals.top1_accuracy(), top1_interval(judged.totals)) +
                 formatted(" of %s training images, in %d folds",
                           grouped(judged.totals.count).c_str(), judged.folds));
    const Calibration& calibration = run.details.calibration;
    if (!calibration.answers.empty() && is_at_limit(calibration.temperature))
      result("confidence", "cannot be calibrated: do not rely on it");
    else if (!calibration.answers.empty())
      result(
          "temperature",
          formatted("%.3f (of the softmax, fitted on the %s images, so slightly optimistic there)",
                    calibration.temperature, judged.folds > 0 ? "out-of-fold" : "validation"));
    result("images/s", formatted("%.1f", summary_of(run).images_per_second));
    if (run.start.data.augment != "none") result("augmentation", run.start.data.augment);
    result("total time",
           duration_text(end.total_seconds) +
               formatted(" (first step after %.2f s)", end.start_to_first_step_seconds));
    if (const std::string cost = cost_text(run); !cost.empty()) result("cost", cost);
    if (const std::string text = interruptions_text(run); !text.empty())
      result("interrupted", text);
    result("peak memory",
           bytes_text(end.peak_memory_bytes) +
               (end.peak_device_bytes > 0 ? ", GPU " + bytes_text(end.peak_device_bytes) : ""));
    if (const std::string load = load_text(run.epochs); !load.empty()) result("load", load);
    result("bad images",
           formatted("%d training, %d validation; damaged but used: %d, %d",
                     count_faults(end, "training", false), count_faults(end, "validation", false),
                     count_faults(end, "training", true), count_faults(end, "validation", true)));
    result("model", end.model_path);
    const auto& whole = run.whole_sinks;
    if (std::find(whole.begin(), whole.end(), kReportName) != whole.end())
      result("report", page_.string());
    for (const std::string& loss : run.losses) result("lost", loss);
    log_.info("  " + verdict(run).text);
  }

  Log& log_;
  std::filesystem::path page_;
  LiveLine live_;
  Clock::time_point shown_;
};

}  // namespace

std::unique_ptr<RunSink> make_console(Log& log, const std::filesystem::path& page) {
  return std::make_unique<Console>(log, page);
}

}  // namespace kiln
