// The HTML pages that Kiln writes, and the statements they make about runs. Every page is one
// self-contained file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_folder.h"
#include "record/audit_record.h"
#include "record/evaluation.h"
#include "record/run_record.h"
#include "record/run_sink.h"
#include "record/run_summary.h"
#include "record/vocabulary.h"

namespace kiln {

struct Series;

inline constexpr std::int64_t kFewJudged = 300;  // that say little about a model

// `report.html`: the run so far. Under 2 MB for any number of classes, epochs and warnings: long
// lists are truncated, which is stated. `reload_seconds`, while the run goes on: how soon there
// will be a newer one, which the page then loads; 0: it stays as it is.
// `page`: where it will be; `logs`: the run's, for its first batch.
std::string report_html(const RunRecord& run, const std::filesystem::path& page = {},
                        const std::filesystem::path& logs = {}, int reload_seconds = 0);

inline constexpr const char* kFirstBatchName = "first_batch.jpg";

inline constexpr const char* kReportName = "report.html";
// Writes the report of `run`, which the other sinks are told of, after its first epoch, then every
// half minute, or less often where that takes more than 2 % of the time, and at the end; there
// unless the record beside it is still that of an earlier run.
std::unique_ptr<RunSink> make_html_report(const std::filesystem::path& path, const RunRecord& run);

struct NamedRun {
  std::string name;
  RunRecord run;
  std::string page = {};  // the relative address of its report; may be empty
};
// Compares several runs side by side: metrics, curves, and the options that differ.
std::string comparison_html(const std::vector<NamedRun>& runs);

// `evaluation.html` of `kiln evaluate`: all results of a single model, or a comparison of several
// with links to the page of each. Same size limits as report_html().
std::string evaluation_html(const EvaluationRecord& record, const std::filesystem::path& page = {});
// The page of one of several models: "evaluation-2.html" for the second.
std::string model_page_name(std::size_t model);
std::string model_page_html(const EvaluationRecord& record, std::size_t model,
                            const std::filesystem::path& page = {});

// `audit.html` of `kiln audit`: the images worth looking at, most doubtful first, and what to do
// with them. The files beside the page list all images; pictures for which it has no room are added
// to `beside`, as files of a folder beside the page.
std::string audit_html(const AuditRecord& record, const std::filesystem::path& page = {},
                       std::vector<OutputFile>* beside = nullptr);

// The page of `kiln score --page`: answers for new images.
struct AnswerOnPage {
  JudgedImage image;
  std::vector<std::string> neighbors;  // training images, nearest first
};
struct AnswersPage {
  double time = 0;  // Unix seconds
  std::string model, data_path;
  double threshold = 0;                   // the least confidence of an answer
  std::vector<std::string> classes = {};  // the model's
  std::vector<long long> counts = {};     // answers, by class
  long long num_images = 0, num_bad = 0;
  std::vector<AnswerOnPage> images = {};  // some of each class
};
std::string answers_html(const AnswersPage& page, const std::filesystem::path& path);

// The page of `kiln select --page`: images to label, each by a click.
struct SelectionPage {
  double time = 0;  // Unix seconds
  std::string model, data_path;
  std::vector<std::string> classes = {};  // the model's
  std::vector<JudgedImage> images = {};   // in the order of their worth, without a label (-1)
};
std::string selection_html(const SelectionPage& page, const std::filesystem::path& path);

// The parts of report.html: each a `<section>`, or empty if the run has nothing to show. Defined in
// page_facts.cpp, but for the verdict (page.cpp).

std::string verdict_html(const RunRecord& run);   // did it work: the metrics
std::string time_html(const RunRecord& run);      // time breakdown
std::string warnings_html(const RunRecord& run);  // warnings of the log, and bad images
std::string data_html(const RunRecord& run);
std::string interruptions_html(const RunRecord& run);
std::string settings_html(const RunRecord& run);  // command, options, versions

// The settings of a command that is not a training run.
std::string settings_section(const TextPairs& options, const TextPairs& versions);
// The first bad and damaged images with their faults; empty if there are none.
std::string faults_section(const std::vector<ImageFaultRecord>& faults);
// A line of a chart with a point for each epoch.
Series by_epoch(const RunRecord& run, std::string name, int color,
                double (*value)(const EpochRecord&));

// One model's answers on labeled images, from a run's validation or from `kiln evaluate`. `data`
// names the classes. Each is a `<section>` or empty. Defined in page.cpp, those of a task in
// results_page.cpp.

// How many images are answered at which confidence threshold, and how accurately. `chosen_here`:
// the temperature was fitted on these very images.
std::string confidence_html(const Calibration& calibration, bool chosen_here);
// One row per class, worst first. `bins`: by class, for a threshold to move; may be empty.
std::string classes_html(const DataRecord& data, const ValidationDetails& details,
                         const std::vector<ConfidenceBins>& bins = {});
std::string confusion_html(const DataRecord& data, const ConfusionMatrix& matrix);
// The name of a class, with what the page's script needs to count it from another confidence on.
std::string binned_html(const std::string& name, const ConfidenceBins& bins);
// What the task gives beside these: tables with curves, and galleries.
std::string results_html(const DataRecord& data, const ValidationDetails& details);
// Tiles of figures that are not counted; `when` follows their names.
std::string figure_tiles(const std::vector<Figure>& figures, const std::string& when);
std::string macro_tiles(const std::string& when, double recall, double f1);
std::string capitalized(std::string text);

// Interpretation of metrics: did it work, can it be trusted, what limited its speed. Of a run:
// defined in findings.cpp, its speed in page_facts.cpp; of an evaluation or an audit: in its page.
enum class Judged { kGood, kNote, kWarning };

struct Finding {
  Judged judged = Judged::kNote;
  std::string text;              // sentences of plain text
  bool doubts_accuracy = false;  // a reason not to trust the accuracy, which the console says, too
};

// One short sentence: did it work; how many labels are wrong.
Finding verdict(const RunRecord& run);
Finding audit_verdict(const AuditRecord& record);

// Whether the metrics can be trusted and what the reader still has to decide; warnings first, those
// of the log that doubt the accuracy before all others. Nothing is good beside such a warning. At
// most one finding is about the trend of training.
std::vector<Finding> findings(const RunRecord& run);
std::vector<Finding> evaluation_findings(const EvaluatedModel& model);
std::vector<Finding> audit_findings(const AuditRecord& record);

// Whether the model that is right more often is really better, or the difference may be chance.
std::string pair_finding(const EvaluationRecord& record, const ModelPair& pair);

// The line of the plan that says how to begin with pretrained weights; empty: it is no good advice.
std::string better_start(const RunStart& start);
// What to try next, most promising first. No two suggestions contradict each other.
std::vector<std::string> next_steps(const RunRecord& run);

// A way to make a run faster, with the measurements behind it.
struct Rung {
  bool is_worth_it = false;
  std::string text;  // sentences of plain text
};

// In the order to try them: images, validation if it takes much, processors or batch, device, a
// bigger machine or more ranks. Empty before the end of the first epoch.
std::vector<Rung> speed_ladder(const RunRecord& run);

// Several runs beside each other: defined in compare.cpp.

// Best top-1 of the saved model first; runs without a finished epoch last.
void sort_by_accuracy(std::vector<NamedRun>* runs);
// The heads of a table, then a row of plain texts for each run and its saved model; for the
// terminal and the page.
std::vector<std::vector<std::string>> comparison_rows(const std::vector<NamedRun>& runs);

// Whether the first two of the sorted runs differ significantly, or cannot be compared; empty if
// fewer than two have an accuracy.
std::string comparison_finding(const std::vector<NamedRun>& runs);
// The complete comparison, aligned for a terminal.
std::string comparison_text(const std::vector<NamedRun>& runs);

// The top of a page: the verdict, the main figures as tiles, and the findings. Defined in page.cpp.

// `name` is plain text.
std::string tile(const std::string& name, const std::string& figure_html, const std::string& more);
std::string count_tile(const std::string& name, const std::string& id, std::int64_t count,
                       const std::string& more = "");

// An accuracy with its 95 % confidence interval, drawn as a bar. `id` as in figure(); `name` is
// plain text. `guessing`: the accuracy of always predicting the largest class; 0: not shown.
std::string accuracy_tile(const std::string& id, const std::string& name, double value,
                          const Interval& interval, double guessing = 0);
// `tiles` and `more`, which comes before them, are HTML.
std::string verdict_section(const std::string& heading, const Finding& verdict,
                            const std::string& tiles, const std::string& more = "");
std::string findings_list(const std::vector<Finding>& findings);

}  // namespace kiln
