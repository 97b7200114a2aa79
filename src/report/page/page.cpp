#include "report/page/page.h"

#include <unistd.h>

#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "record/run_file.h"
#include "report/page/audit_page.h"
#include "report/page/chart.h"
#include "report/page/html.h"

namespace kiln {
namespace {

template <typename Value>
Series by_epoch(const RunRecord& run, const char* name, int color, Value&& value) {
  Series series{name, color, false, false, {}};
  for (const EpochRecord& epoch : run.epochs)
    series.points.push_back({static_cast<double>(epoch.epoch), value(epoch)});
  return series;
}

template <typename Value>
Series by_step(const RunRecord& run, const char* name, int color, Value&& value) {
  // Drawn in the background, except before the end of the first epoch, when it is all there is.
  Series series{name, color, !run.epochs.empty(), false, {}};
  for (const StepRecord& step : run.steps) {
    const double share = step.num_steps > 0 ? static_cast<double>(step.step) / step.num_steps : 1;
    series.points.push_back({step.epoch - 1 + share, value(step)});
  }
  return series;
}

// Not a number, so not drawn, for the first step of an epoch: the designer's rate counts a batch
// when its forward pass ends, so that step's time does not include a backward pass.
double step_speed(const StepRecord& step) {
  return step.step > 1 ? step.batch_images_per_second : std::numeric_limits<double>::quiet_NaN();
}

class HtmlReport : public RunSink {
 public:
  explicit HtmlReport(std::filesystem::path path) : path_(std::move(path)) {}
  std::string_view name() const override { return kReportName; }
  // Removes an earlier run's page after the first epoch: if this run were killed, that page would
  // be mistaken for its own.
  void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) override {
    if (!std::exchange(has_epoch_, true)) ::unlink(path_.c_str());
  }
  void resume(const RunRecord& so_far) override {
    if (!so_far.epochs.empty()) epoch(so_far.epochs.back(), nullptr);
  }
  void end(const RunRecord& run) override {
    std::error_code fault;
    const std::filesystem::path record = path_.parent_path() / kRunFileName;
    if (has_epoch_ || !std::filesystem::exists(next_record(record), fault))
      write_file_durably(path_, report_html(run));
  }

 private:
  std::filesystem::path path_;
  bool has_epoch_ = false;
};

}  // namespace

std::string curves_html(const RunRecord& run) {
  if (run.epochs.empty() && run.steps.empty()) return "";
  const int kept = run.end.saved_epoch;
  LineChart loss{"Loss", Unit::kPlain, {}, kept};
  loss.series = {
      by_epoch(run, "training", 1, [](const EpochRecord& epoch) { return epoch.train.loss(); }),
      by_epoch(run, "validation", 0, [](const EpochRecord& epoch) { return epoch.valid.loss(); }),
      by_step(run, "steps", 1, [](const StepRecord& step) { return step.batch.loss(); })};
  LineChart accuracy{"Top-1 accuracy", Unit::kPercent, {}, kept};
  accuracy.series = {by_epoch(run, "training", 1,
                              [](const EpochRecord& epoch) { return epoch.train.top1_accuracy(); }),
                     by_epoch(run, "validation", 0, [](const EpochRecord& epoch) {
                       return epoch.valid.top1_accuracy();
                     })};
  if (has_top5(run.start.data))
    accuracy.series.push_back(by_epoch(run, "validation top-5", 4, [](const EpochRecord& epoch) {
      return epoch.valid.top5_accuracy();
    }));
  LineChart rate{"Learning rate", Unit::kPlain, {}};
  rate.series = {
      by_epoch(run, "epochs", 2, [](const EpochRecord& epoch) { return epoch.learning_rate; }),
      by_step(run, "steps", 2, [](const StepRecord& step) { return step.learning_rate; })};
  rate.series.front().holds = true;
  LineChart speed{"Images per second", Unit::kPlain, {}};
  speed.series = {by_epoch(run, "epochs", 3,
                           [](const EpochRecord& epoch) { return epoch.train_images_per_second; }),
                  by_step(run, "steps", 3, step_speed)};
  std::string charts;
  for (const LineChart* chart : {&loss, &accuracy, &rate, &speed})
    charts += line_chart_html(*chart);
  return section("curves", "Training curves", "<div class=\"charts\">\n" + charts + "</div>");
}

std::string section(const std::string& id, const std::string& heading, const std::string& html) {
  if (html.empty()) return "";
  return element("section id=\"" + id + "\"", element("h2", escaped(heading)) + "\n" + html) + "\n";
}

std::string page_html(std::string_view title, const std::string& body) {
  return filled(kPageHtml, {{"title", escaped(title)},
                            {"style", std::string(kReportCss)},
                            {"body", body},
                            {"script", std::string(kReportJs)}});
}

std::string report_html(const RunRecord& run) {
  const std::string main = verdict_html(run) + findings_html(run) + next_steps_html(run) +
                           curves_html(run) + time_html(run) + interruptions_html(run) +
                           confidence_html(run.details.calibration, /*chosen_here=*/true) +
                           classes_html(run.start.data, run.details) +
                           confusion_html(run.start.data, run.details.confusion) +
                           mistakes_html(run.start.data, run.details.most_wrong) +
                           doubtful_html(run.start.data, run.details.doubtful) +
                           warnings_html(run) + data_html(run) + settings_html(run);
  return page_html(run_title(run.start) + " – Kiln", headline_html(run) + element("main", main));
}

std::unique_ptr<RunSink> make_html_report(const std::filesystem::path& path) {
  return std::make_unique<HtmlReport>(path);
}

namespace {

std::string class_of(Judged judged) {
  if (judged == Judged::kGood) return "good";
  return judged == Judged::kNote ? "note" : "warning";
}

// An icon distinguished by color and shape, with a word for screen readers.
std::string icon(Judged judged) {
  const char* sign = judged == Judged::kGood ? "✓" : judged == Judged::kNote ? "i" : "!";
  const char* word = judged == Judged::kGood   ? "Good: "
                     : judged == Judged::kNote ? "Note: "
                                               : "Warning: ";
  return element("span class=\"icon\" aria-hidden=\"true\"", sign) +
         element("span class=\"unseen\"", word);
}

// Value, confidence interval and guessing baseline, on a scale from 0 to 1.
std::string interval_bar(double value, const Interval& interval, double guessing) {
  return element(
      formatted("span class=\"interval\" aria-hidden=\"true\" style=\"--value:%.2f%%;--low:%.2f%%;"
                "--high:%.2f%%;--guess:%.2f%%\"",
                100 * value, 100 * interval.low, 100 * interval.high, 100 * guessing),
      guessing > 0 ? "<i></i><u></u><b></b>" : "<i></i><b></b>");
}

}  // namespace

std::string tile(const std::string& name, const std::string& figure_html, const std::string& more) {
  return element("div class=\"tile\"", element("dt", escaped(name)) +
                                           element("dd class=\"figure\"", figure_html) +
                                           element("dd class=\"more\"", more)) +
         "\n";
}

std::string accuracy_tile(const AccuracyFigure& accuracy) {
  return tile(
      accuracy.name, figure(accuracy.id, accuracy.value, percent(accuracy.value)),
      interval_bar(accuracy.value, accuracy.interval, accuracy.guessing) + "95 % interval: " +
          figure(accuracy.id + "-low", accuracy.interval.low, percent(accuracy.interval.low)) +
          " to " +
          figure(accuracy.id + "-high", accuracy.interval.high, percent(accuracy.interval.high)));
}

std::string verdict_line(const Finding& verdict) {
  return element("p class=\"verdict " + class_of(verdict.judged) + "\"", prose(verdict.text)) +
         "\n";
}

std::string findings_list(const std::vector<Finding>& findings) {
  std::string items;
  for (const Finding& finding : findings)
    items += element("li class=\"" + class_of(finding.judged) + "\"",
                     icon(finding.judged) + element("span", prose(shortened(finding.text, 2000)))) +
             "\n";
  return element("ul class=\"findings\"", "\n" + items);
}

namespace {

// Figures of the saved model. The best epoch follows if that is another one.
std::string accuracy_tiles(const RunRecord& run, const RunSummary& summary) {
  const EpochRecord &kept = *summary.kept, &best = *summary.best;
  const auto name = [](const char* what, const EpochRecord& epoch) {
    return formatted("%s, epoch %d", what, epoch.epoch);
  };
  std::string tiles = accuracy_tile({"top1", name("Top-1", kept), kept.valid.top1_accuracy(),
                                     top1_interval(kept.valid), summary.largest_share});
  if (has_top5(run.start.data))
    tiles += accuracy_tile(
        {"top5", name("Top-5", kept), kept.valid.top5_accuracy(), top5_interval(kept.valid)});
  if (kept.macro) {  // empty for records of older versions
    const auto& [recall, f1] = *kept.macro;
    tiles += tile(name("Macro recall", kept), figure("macro-recall", recall, percent(recall)),
                  "unweighted mean over the classes that have validation images") +
             tile(name("Macro F1", kept), figure("macro-f1", f1, formatted("%.3f", f1)),
                  "mean over the classes that have validation images or were predicted");
  }
  if (best.epoch != kept.epoch && best.valid.top1_accuracy() > kept.valid.top1_accuracy())
    tiles +=
        tile(name("Best top-1", best),
             figure("best-top1", best.valid.top1_accuracy(), percent(best.valid.top1_accuracy())),
             "another epoch than the one that was saved");
  return tiles;
}

std::string saved_text(const RunEnd& end) {
  if (end.saved_epoch == 0)
    return end.status == RunStatus::kRunning ? "no model written yet" : "no model was saved";
  return formatted("epoch %d was saved", end.saved_epoch);
}

}  // namespace

std::string headline_html(const RunRecord& run) {
  const RunStart& start = run.start;
  std::string facts = utc_text(start.time);
  if (!start.device.empty()) facts += " · " + start.device;
  if (start.num_ranks > 1) facts += formatted(" · %d ranks", start.num_ranks);
  if (start.num_parameters > 0) facts += " · " + grouped(start.num_parameters) + " parameters";
  if (const std::string text = interruptions_text(run); !text.empty())
    facts += " · interrupted " + text;
  const bool is_fine = run.end.status == RunStatus::kFinished;
  return element("header", element("p class=\"brand\"", "Kiln") +
                               element("h1", element("bdi", escaped(run_title(start)))) +
                               element(is_fine ? "p class=\"status\" id=\"status\""
                                               : "p class=\"status warning\" id=\"status\"",
                                       status_text(run.end)) +
                               element("p class=\"facts\"", escaped(facts))) +
         "\n";
}

std::string verdict_html(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  const Finding answer = verdict(run);
  std::string tiles;
  if (summary.kept != nullptr) {
    tiles = accuracy_tiles(run, summary);
    tiles += tile("Speed",
                  figure("images-per-second", summary.images_per_second,
                         grouped(std::llround(summary.images_per_second)) + " images/s"),
                  "in training");
  }
  tiles += tile("Time", figure("seconds", summary.seconds, duration_text(summary.seconds)),
                figure("epochs", static_cast<double>(run.epochs.size()),
                       formatted("%zu of %d epochs", run.epochs.size(), run.start.num_epochs)) +
                    "; " + saved_text(run.end));
  const auto& automatic = run.end.automatic;
  return section(
      "verdict", "Did it work?",
      verdict_line(answer) +
          (automatic ? element("p id=\"kept\"", escaped(automatic->reason)) : std::string()) +
          element("dl class=\"tiles\"", "\n" + tiles));
}

std::string findings_html(const RunRecord& run) {
  return section("trust", "Can it be trusted?", findings_list(findings(run)));
}

std::string next_steps_html(const RunRecord& run) {
  std::string items;
  for (const std::string& step : next_steps(run)) items += element("li", prose(step)) + "\n";
  return items.empty() ? "" : section("next", "What to try next", element("ol", "\n" + items));
}

}  // namespace kiln
