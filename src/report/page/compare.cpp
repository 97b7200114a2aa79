#include <algorithm>
#include <array>
#include <cmath>
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

ComparisonRow row_of(const NamedRun& named) {
  const RunSummary summary = summary_of(named.run);
  ComparisonRow row;
  row.run = printable(named.name);
  row.model = printable(named.run.start.model);
  row.epochs = formatted("%zu/%d", named.run.epochs.size(), named.run.start.num_epochs);
  row.time = duration_text(summary.seconds);
  row.status = status_text(named.run.end);
  if (summary.kept == nullptr) {
    row.top1 = row.interval = row.top5 = row.macro_recall = row.loss = row.speed = "-";
    return row;
  }
  if (summary.kept != summary.last) row.epochs += formatted(" (saved: %d)", summary.kept->epoch);
  const Totals& valid = summary.kept->valid;
  const Interval interval = top1_interval(valid);
  row.top1 = percent(valid.top1_accuracy());
  row.interval = formatted("%.1f to %.1f", 100 * interval.low, 100 * interval.high);
  row.top5 = has_top5(named.run.start.data) ? percent(valid.top5_accuracy()) : "-";
  const auto& macro = summary.kept->macro;  // empty in records of older versions
  row.macro_recall = macro && std::isfinite(macro->recall) ? percent(macro->recall) : "-";
  row.loss = std::isfinite(valid.loss()) ? formatted("%.4f", valid.loss()) : "diverged";
  row.speed = formatted("%.0f", summary.images_per_second);
  return row;
}

std::string value_of(const RunRecord& run, const std::string& option) {
  for (const auto& [name, value] : run.start.options)
    if (name == option) return value;
  return "";
}

// Returns the number of characters, assuming that each takes one terminal column.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - width_of(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
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
  return formatted("%s images of %zu classes", grouped(images).c_str(), counts.size());
}

constexpr int kNumColors = 8;
constexpr std::size_t kMaxName = 60;

std::string name_html(const std::string& name) {
  return element("bdi", escaped(shortened(name, kMaxName)));
}

std::string figures_html(const std::vector<NamedRun>& runs) {
  std::vector<Column> columns;
  for (const std::string& head : kComparisonHeads.cells())
    columns.push_back({head, head != kComparisonHeads.model && head != kComparisonHeads.status});
  std::vector<std::vector<std::string>> rows;
  for (const ComparisonRow& row : comparison_rows(runs)) {
    std::vector<std::string> cells;
    for (const std::string& cell : row.cells()) cells.push_back(escaped(cell));
    cells[0] =
        element(formatted("span class=\"key c%zu\"", rows.size() % kNumColors), name_html(row.run));
    rows.push_back(cells);
  }
  columns[0].is_number = false;
  const std::string finding = comparison_finding(runs);
  return section("runs", "Which is best?",
                 (finding.empty() ? "" : element("p class=\"verdict\"", escaped(finding))) +
                     table("Runs by the top-1 of their saved model", columns, rows));
}

template <typename Value>
std::string chart_of(const std::vector<NamedRun>& runs, const char* title, Unit unit,
                     Value&& value) {
  LineChart chart{title, unit, {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{
        shortened(runs[i].name, kMaxName), static_cast<int>(i % kNumColors), false, false, {}};
    for (const EpochRecord& epoch : runs[i].run.epochs)
      series.points.push_back({static_cast<double>(epoch.epoch), value(epoch)});
    chart.series.push_back(std::move(series));
  }
  return line_chart_html(chart);
}

std::string charts_html(const std::vector<NamedRun>& runs) {
  const std::string charts =
      chart_of(runs, "Validation top-1", Unit::kPercent,
               [](const EpochRecord& epoch) { return epoch.valid.top1_accuracy(); }) +
      chart_of(runs, "Validation loss", Unit::kPlain,
               [](const EpochRecord& epoch) { return epoch.valid.loss(); }) +
      chart_of(runs, "Training loss", Unit::kPlain,
               [](const EpochRecord& epoch) { return epoch.train.loss(); }) +
      chart_of(runs, "Images per second", Unit::kPlain,
               [](const EpochRecord& epoch) { return epoch.train_images_per_second; });
  return section("curves", "Training curves", element("div class=\"charts\"", "\n" + charts));
}

std::string differences_html(const std::vector<NamedRun>& runs) {
  std::vector<Column> columns = {{"option", false}};
  for (const NamedRun& named : runs) columns.push_back({shortened(named.name, kMaxName), false});
  std::vector<std::vector<std::string>> rows;
  for (const OptionDifference& difference : option_differences(runs)) {
    rows.push_back({escaped(difference.name)});
    for (const std::string& value : difference.values)
      rows.back().push_back(value.empty() ? "–" : name_html(value));
  }
  return section("options", "Differences",
                 rows.empty() ? element("p", "All relevant options are equal.")
                              : table("Options that differ", columns, rows));
}

}  // namespace

void sort_by_accuracy(std::vector<NamedRun>* runs) {
  std::stable_sort(runs->begin(), runs->end(), [](const NamedRun& a, const NamedRun& b) {
    const EpochRecord *one = summary_of(a.run).kept, *other = summary_of(b.run).kept;
    if (one == nullptr || other == nullptr) return one != nullptr && other == nullptr;
    return one->valid.top1_accuracy() > other->valid.top1_accuracy();
  });
}

std::vector<ComparisonRow> comparison_rows(const std::vector<NamedRun>& runs) {
  std::vector<ComparisonRow> rows;
  rows.reserve(runs.size());
  for (const NamedRun& named : runs) rows.push_back(row_of(named));
  return rows;
}

std::vector<OptionDifference> option_differences(const std::vector<NamedRun>& runs) {
  std::vector<std::string> names;
  for (const NamedRun& named : runs)
    for (const auto& [name, value] : named.run.start.options)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::vector<OptionDifference> differences;
  for (const std::string& name : names) {
    if (std::find(kOwnPaths.begin(), kOwnPaths.end(), name) != kOwnPaths.end()) continue;
    OptionDifference difference{name, {}};
    for (const NamedRun& named : runs) difference.values.push_back(value_of(named.run, name));
    const std::string& first = difference.values.front();
    if (std::any_of(difference.values.begin(), difference.values.end(),
                    [&](const std::string& value) { return value != first; }))
      differences.push_back(std::move(difference));
  }
  return differences;
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
  const auto variance = [](double share, std::int64_t count) {
    return share * (1 - share) / static_cast<double>(std::max<std::int64_t>(1, count));
  };
  // Normal approximation for the difference of two independent proportions.
  const double reach = 1.96 * std::sqrt(variance(p, one.count) + variance(q, other.count));
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
  std::vector<std::vector<std::string>> rows = {kComparisonHeads.cells()};
  for (const ComparisonRow& row : comparison_rows(runs)) rows.push_back(row.cells());
  std::string text = aligned(rows);
  const std::vector<OptionDifference> differences = option_differences(runs);
  if (!differences.empty()) {
    rows = {{"differs in"}};
    for (const NamedRun& named : runs) rows.front().push_back(printable(named.name));
    for (const OptionDifference& difference : differences) {
      rows.push_back({"--" + difference.name});
      for (const std::string& value : difference.values)
        rows.back().push_back(value.empty() ? "-" : printable(value));
    }
    text += "\n" + aligned(rows);
  }
  const std::string finding = comparison_finding(runs);
  return finding.empty() ? text : text + "\n" + finding + "\n";
}

std::string comparison_html(const std::vector<NamedRun>& runs) {
  const std::string title = formatted("%zu runs compared", runs.size());
  return page_html(
      title + " – Kiln",
      element("header", element("p class=\"brand\"", "Kiln") + element("h1", title)) +
          element("main", figures_html(runs) + charts_html(runs) + differences_html(runs)));
}

}  // namespace kiln
