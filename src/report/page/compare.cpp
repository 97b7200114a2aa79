#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/chart.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 4> kOwnPaths = {"trained-model-path", "log-path", "explain",
                                                       "config"};

Cells row_of(const NamedRun& named) {
  const RunRecord& run = named.run;
  const RunSummary summary = summary_of(run);
  std::string epochs = formatted("%zu/%d", run.epochs.size(), run.start.num_epochs);
  Cells figures(6, "-");
  if (summary.kept != nullptr) {
    if (summary.kept != summary.last) epochs += formatted(" (saved: %d)", summary.kept->epoch);
    const Totals& valid = summary.kept->valid;
    const Interval& interval = summary.top1_interval;
    const auto& macro = summary.kept->macro;  // empty in records of older versions
    figures = {percent(valid.top1_accuracy()),
               formatted("%.1f to %.1f", 100 * interval.low, 100 * interval.high),
               has_top5(run.start.data) ? percent(valid.top5_accuracy()) : "-",
               macro && std::isfinite(macro->recall) ? percent(macro->recall) : "-",
               std::isfinite(valid.loss()) ? formatted("%.4f", valid.loss()) : "diverged",
               formatted("%.0f", summary.images_per_second)};
  }
  Cells row = {printable(named.name)};
  row.insert(row.end(), figures.begin(), figures.end());
  row.insert(row.end(), {printable(run.start.model), epochs, duration_text(summary.seconds),
                         status_text(run.end)});
  return row;
}

// The options in which the runs differ: its name, and the value of each run. Output paths (model
// and log) are omitted.
std::vector<Cells> option_differences(const std::vector<NamedRun>& runs) {
  std::vector<std::string> names;
  for (const NamedRun& named : runs)
    for (const auto& [name, value] : named.run.start.options)
      if (std::ranges::count(names, name) == 0) names.push_back(name);
  std::vector<Cells> differences;
  for (const std::string& name : names) {
    if (std::ranges::count(kOwnPaths, name) > 0) continue;
    Cells row = {name};
    for (const NamedRun& named : runs) row.push_back(option_of(named.run.start, name));
    if (std::count(row.begin() + 1, row.end(), row[1]) < std::ssize(runs))
      differences.push_back(std::move(row));
  }
  return differences;
}

// The number of validation images per class name. Validation sets are compared by it, because the
// same images may be stored under different paths, such as in packed shards.
using ClassCounts = std::map<std::string, long long>;

ClassCounts validation_counts(const DataRecord& data) {
  ClassCounts counts;
  for (std::size_t label = 0; label < data.classes.size(); ++label)
    if (const long long count = count_of(data.valid_counts, static_cast<int>(label)); count > 0)
      counts[data.classes[label]] += count;
  return counts;
}

std::string in_words(const ClassCounts& counts) {
  long long images = 0;
  for (const auto& [name, count] : counts) images += count;
  return plural(images, "image", "images") + " of " +
         plural(std::ssize(counts), "class", "classes");
}

constexpr int kNumColors = 8;
constexpr std::size_t kMaxName = 60;

std::string figures_html(const std::vector<NamedRun>& runs) {
  std::vector<Cells> rows = comparison_rows(runs);
  std::vector<Column> columns;
  for (const std::string& head : rows.front())
    columns.emplace_back(head, head != "run" && head != "model" && head != "status");
  rows.erase(rows.begin());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string name = name_html(rows[i][0]);
    if (!runs[i].page.empty()) name = element("a href=\"" + escaped(runs[i].page) + "\"", name);
    for (std::string& cell : rows[i]) cell = escaped(cell);
    rows[i][0] = element(formatted("span class=\"key c%zu\"", i % kNumColors), name);
  }
  const std::string finding = comparison_finding(runs);
  return section("runs", "Which is best?",
                 (finding.empty() ? "" : element("p class=\"verdict\"", escaped(finding))) +
                     table("Runs by the top-1 of their saved model", columns, rows));
}

std::string chart_of(const std::vector<NamedRun>& runs, const char* title, Unit unit,
                     double (*value)(const EpochRecord&)) {
  LineChart chart{title, unit, {}};
  for (std::size_t i = 0; i < runs.size(); ++i)
    chart.series.push_back(by_epoch(runs[i].run, shortened(runs[i].name, kMaxName),
                                    static_cast<int>(i % kNumColors), value));
  return line_chart_html(chart);
}

std::string differences_html(const std::vector<NamedRun>& runs) {
  std::vector<Column> columns = {text_column("option")};
  for (const NamedRun& named : runs)
    columns.push_back(text_column(shortened(named.name, kMaxName)));
  std::vector<Cells> rows = option_differences(runs);
  for (Cells& row : rows) {
    for (std::size_t i = 1; i < row.size(); ++i) row[i] = row[i].empty() ? "–" : name_html(row[i]);
    row[0] = escaped(row[0]);
  }
  return section("options", "Differences",
                 rows.empty() ? element("p", "All relevant options are equal.")
                              : table("Options that differ", columns, rows));
}

}  // namespace

void sort_by_accuracy(std::vector<NamedRun>* runs) {
  std::ranges::stable_sort(*runs, std::ranges::greater{}, [](const NamedRun& named) {
    const EpochRecord* kept = summary_of(named.run).kept;
    return kept != nullptr ? kept->valid.top1_accuracy() : -1;
  });
}

std::vector<Cells> comparison_rows(const std::vector<NamedRun>& runs) {
  std::vector<Cells> rows = {{"run", "top-1", "95 %", "top-5", "macro recall", "loss", "images/s",
                              "model", "epochs", "time", "status"}};
  for (const NamedRun& named : runs) rows.push_back(row_of(named));
  constexpr std::ptrdiff_t kTop5 = 3;
  if (std::ranges::none_of(runs, [](auto& named) { return has_top5(named.run.start.data); }))
    for (Cells& row : rows) row.erase(row.begin() + kTop5);
  return rows;
}

std::string comparison_finding(const std::vector<NamedRun>& runs) {
  if (runs.size() < 2) return "";
  const EpochRecord *best = summary_of(runs[0].run).kept, *second = summary_of(runs[1].run).kept;
  if (best == nullptr || second == nullptr) return "";
  const Totals &one = best->valid, &other = second->valid;
  const double p = one.top1_accuracy(), q = other.top1_accuracy();
  const DataRecord &data = runs[0].run.start.data, &other_data = runs[1].run.start.data;
  const ClassCounts counts = validation_counts(data), other_counts = validation_counts(other_data);
  if (counts != other_counts || (counts.empty() && one.count != other.count))
    return "The best two runs were validated on different images (" + in_words(counts) + "; " +
           in_words(other_counts) + "), so top-1 of " + percent(p) + " and of " + percent(q) +
           " say little about which is better.";
  const auto variance = [](double share, const RunRecord& run, const EpochRecord& epoch) {
    return share * (1 - share) / std::max(1.0, independent_images(run, epoch));
  };
  // Normal approximation for the difference of two independent proportions.
  const double reach =
      1.96 * std::sqrt(variance(p, runs[0].run, *best) + variance(q, runs[1].run, *second));
  const std::string lead = formatted("The best run leads by %.1f points of top-1", 100 * (p - q));
  const std::string sets =
      data.valid_path == other_data.valid_path
          ? ""
          : " (The validation paths differ; both have the same number of images in every class.)";
  if (p - q > reach) return lead + ", which is statistically significant." + sets;
  return lead +
         formatted(
             ", but with %s validation images differences up to %.1f points may be due to chance.",
             grouped(std::min(one.count, other.count)).c_str(), 100 * reach) +
         sets;
}

std::string comparison_text(const std::vector<NamedRun>& runs) {
  std::string text = aligned(comparison_rows(runs));
  std::vector<Cells> rows = option_differences(runs);
  if (!rows.empty()) {
    for (Cells& row : rows) {
      for (std::size_t i = 1; i < row.size(); ++i)
        row[i] = row[i].empty() ? "-" : printable(row[i]);
      row[0].insert(0, "--");
    }
    Cells heads = {"differs in"};
    for (const NamedRun& named : runs) heads.push_back(printable(named.name));
    rows.insert(rows.begin(), heads);
    text += "\n" + aligned(rows);
  }
  const std::string finding = comparison_finding(runs);
  return finding.empty() ? text : text + "\n" + finding + "\n";
}

std::string comparison_html(const std::vector<NamedRun>& runs) {
  const std::string title = formatted("%zu runs compared", runs.size());
  const std::string charts = chart_of(runs, "Validation top-1", Unit::kPercent,
                                      [](auto& epoch) { return epoch.valid.top1_accuracy(); }) +
                             chart_of(runs, "Validation loss", Unit::kPlain,
                                      [](auto& epoch) { return epoch.valid.loss(); }) +
                             chart_of(runs, "Training loss", Unit::kPlain,
                                      [](auto& epoch) { return epoch.train.loss(); }) +
                             chart_of(runs, "Images per second", Unit::kPlain,
                                      [](auto& epoch) { return epoch.train_images_per_second; });
  return page_html(
      title, header_html(title),
      figures_html(runs) +
          section("curves", "Training curves", element("div class=\"charts\"", "\n" + charts)) +
          differences_html(runs));
}

}  // namespace kiln
