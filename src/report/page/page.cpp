#include "report/page/page.h"

#include <unistd.h>
#include <limits>
#include <system_error>
#include <utility>

#include "base/files.h"
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

}  // namespace kiln
