// The pages that Kiln writes, and what they say.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "report/record/run_record.h"
#include "report/record/run_sink.h"
#include "report/record/run_summary.h"

namespace kiln {

// The pages that Kiln writes: style, script and frame around a body, in one file that asks for no
// other. What the browser is told forbids it to load anything.

// `title` is plain text.
std::string page_html(std::string_view title, const std::string& body);

// `report.html`: the run as far as it went. Under 2 MB whatever the number of classes, epochs and
// warnings: long lists are cut, and say so.
std::string report_html(const RunRecord& run);

struct NamedRun {
  std::string name;
  RunRecord run;
};
// Several runs side by side: figures, curves, and the options in which they differ.
std::string comparison_html(const std::vector<NamedRun>& runs);

inline constexpr const char* kReportName = "report.html";
// Writes the report at the end of the run.
std::unique_ptr<RunSink> make_html_report(const std::filesystem::path& path);

// The parts of report.html, each a `<section>` or nothing where the run has nothing to show.

// A `<section>` under a heading; `id` is its anchor. Empty for an empty `html`.
std::string section(const std::string& id, const std::string& heading, const std::string& html);

std::string headline_html(const RunRecord& run);  // title, status and circumstances
std::string verdict_html(const RunRecord& run);   // did it work: the figures
std::string findings_html(const RunRecord& run);  // can it be trusted
std::string next_steps_html(const RunRecord& run);
std::string curves_html(const RunRecord& run);     // loss, accuracy, learning rate, images/s
std::string time_html(const RunRecord& run);       // where the time went
std::string classes_html(const RunRecord& run);    // a row a class, the worst first
std::string confusion_html(const RunRecord& run);  // which is taken for which
std::string mistakes_html(const RunRecord& run);   // wrong images
std::string warnings_html(const RunRecord& run);   // the log's, and skipped images
std::string data_html(const RunRecord& run);
std::string settings_html(const RunRecord& run);  // command, options, versions

// What a run's numbers mean, in plain words: did it work, can it be trusted, what held it up.
enum class Judged { kGood, kNote, kWarning };

struct Finding {
  Judged judged = Judged::kNote;
  std::string text;  // sentences of plain text
};

// Did it work: one short sentence.
Finding verdict(const RunRecord& run);

// Can it be trusted; warnings first. At most one of them is about the trend of training.
std::vector<Finding> findings(const RunRecord& run);

// What to try next, the most promising first; never two that contradict each other.
std::vector<std::string> next_steps(const RunRecord& run);

// Where the time went, and what would help; empty before the end of the first epoch.
std::string time_finding(const RunRecord& run);

// Several runs beside each other, as values that the terminal's table and the page share.
struct ComparisonRow {
  std::string run, model, epochs, top1, interval, top5, loss, speed, time, status;
  std::vector<std::string> cells() const {
    return {run, model, epochs, top1, interval, top5, loss, speed, time, status};
  }
};
inline const ComparisonRow kComparisonHeads = {
    "run", "model", "epochs", "best top-1", "95 %", "top-5", "loss", "images/s", "time", "status"};

// The best top-1 first; runs without an epoch last.
void sort_by_accuracy(std::vector<NamedRun>* runs);

std::vector<ComparisonRow> comparison_rows(const std::vector<NamedRun>& runs);

// An option in which the runs differ, with the value of each. Paths that every run has of its own
// (model and log) are left out.
struct OptionDifference {
  std::string name;
  std::vector<std::string> values;
};
std::vector<OptionDifference> option_differences(const std::vector<NamedRun>& runs);

// Whether the first two of sorted runs differ by more than chance, or cannot be compared; empty for
// fewer than two with an accuracy.
std::string comparison_finding(const std::vector<NamedRun>& runs);

// All of it, aligned for a terminal.
std::string comparison_text(const std::vector<NamedRun>& runs);

}  // namespace kiln
