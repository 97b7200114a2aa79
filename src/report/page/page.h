// The HTML pages that Kiln writes, and the statements they make about runs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "record/run_record.h"
#include "record/run_sink.h"
#include "record/run_summary.h"

namespace kiln {

// The frame shared by all pages: style and script around a body, in one self-contained file. Its
// Content-Security-Policy forbids loading anything else.

// `title` is plain text.
std::string page_html(std::string_view title, const std::string& body);

// `report.html`: the run so far. Under 2 MB for any number of classes, epochs and warnings: long
// lists are truncated, which is stated.
std::string report_html(const RunRecord& run);

struct NamedRun {
  std::string name;
  RunRecord run;
};
// Compares several runs side by side: metrics, curves, and the options that differ.
std::string comparison_html(const std::vector<NamedRun>& runs);

inline constexpr const char* kReportName = "report.html";
// Writes the report at the end of the run, unless the record beside it is still that of an earlier
// run. Removes an earlier run's report after the first epoch.
std::unique_ptr<RunSink> make_html_report(const std::filesystem::path& path);

// The parts of report.html: each a `<section>`, or empty if the run has nothing to show.

// A `<section>` under a heading; `id` is its anchor. Empty for an empty `html`.
std::string section(const std::string& id, const std::string& heading, const std::string& html);

std::string headline_html(const RunRecord& run);  // title, status and circumstances
std::string verdict_html(const RunRecord& run);   // did it work: the metrics
std::string findings_html(const RunRecord& run);  // can it be trusted
std::string next_steps_html(const RunRecord& run);
std::string curves_html(const RunRecord& run);    // loss, accuracy, learning rate, images/s
std::string time_html(const RunRecord& run);      // time breakdown
std::string warnings_html(const RunRecord& run);  // warnings of the log, and bad images
std::string data_html(const RunRecord& run);
std::string interruptions_html(const RunRecord& run);
std::string settings_html(const RunRecord& run);  // command, options, versions

// The same for a command that is not a training run.
std::string settings_section(const TextPairs& options, const TextPairs& versions);
// A list item for a bad or damaged image and its fault.
std::string fault_item(const ImageFaultRecord& fault);

// One model's answers on labeled images, from a run's validation or from `kiln evaluate`. `data`
// names the classes. Each is a `<section>` or empty.

// How many images are answered at which confidence threshold, and how accurately. `chosen_here`:
// the temperature was fitted on these very images.
std::string confidence_html(const Calibration& calibration, bool chosen_here);
// One row per class, worst first.
std::string classes_html(const DataRecord& data, const ValidationDetails& details);
std::string confusion_html(const DataRecord& data, const ConfusionMatrix& matrix);
// `heat_maps`: where in each image the model saw its answer; may be empty.
std::string mistakes_html(const DataRecord& data, const std::vector<JudgedImage>& wrong,
                          const std::vector<Thumbnail>& heat_maps = {});

// Interpretation of a run's metrics: did it work, can it be trusted, what limited its speed.
enum class Judged { kGood, kNote, kWarning };

struct Finding {
  Judged judged = Judged::kNote;
  std::string text;  // sentences of plain text
};

// One short sentence: did it work.
Finding verdict(const RunRecord& run);

// Whether the metrics can be trusted; warnings first. At most one finding is about the trend of
// training.
std::vector<Finding> findings(const RunRecord& run);

// What to try next, most promising first. No two suggestions contradict each other.
std::vector<std::string> next_steps(const RunRecord& run);

// Time breakdown and advice; empty before the end of the first epoch.
std::string time_finding(const RunRecord& run);

// A way to make a run faster, with the measurements behind it.
struct Rung {
  bool is_worth_it = false;
  std::string text;  // sentences of plain text
};

// In the order to try them: images, processors or batch, device, a bigger machine or more ranks.
// Empty before the end of the first epoch.
std::vector<Rung> speed_ladder(const RunRecord& run);

// Values of several runs, of the saved model of each, shared by the terminal table and the page.
struct ComparisonRow {
  std::string run, model, epochs, top1, interval, top5, macro_recall, loss, speed, time, status;
  std::vector<std::string> cells() const {
    return {run, model, epochs, top1, interval, top5, macro_recall, loss, speed, time, status};
  }
};
inline const ComparisonRow kComparisonHeads = {"run",      "model", "epochs",       "top-1",
                                               "95 %",     "top-5", "macro recall", "loss",
                                               "images/s", "time",  "status"};

// Best top-1 of the saved model first; runs without a finished epoch last.
void sort_by_accuracy(std::vector<NamedRun>* runs);

std::vector<ComparisonRow> comparison_rows(const std::vector<NamedRun>& runs);

// An option in which the runs differ, with the value of each. Output paths (model and log) are
// omitted.
struct OptionDifference {
  std::string name;
  std::vector<std::string> values;
};
std::vector<OptionDifference> option_differences(const std::vector<NamedRun>& runs);

// Whether the first two of the sorted runs differ significantly, or cannot be compared; empty if
// fewer than two have an accuracy.
std::string comparison_finding(const std::vector<NamedRun>& runs);

// The complete comparison, aligned for a terminal.
std::string comparison_text(const std::vector<NamedRun>& runs);

// The top of a page: the verdict, the main figures as tiles, and the findings.
//
// `name` is plain text.
std::string tile(const std::string& name, const std::string& figure_html, const std::string& more);

struct AccuracyFigure {
  std::string id, name;  // `id` as in figure(); `name` is plain text
  double value = 0;
  Interval interval;    // 95 % confidence
  double guessing = 0;  // accuracy of always predicting the largest class; 0: not shown
};
// Draws the interval as a bar.
std::string accuracy_tile(const AccuracyFigure& accuracy);

std::string verdict_line(const Finding& verdict);

// A `<ul>`.
std::string findings_list(const std::vector<Finding>& findings);

}  // namespace kiln
