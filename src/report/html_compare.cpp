#include "base/text.h"
#include "report/compare.h"
#include "report/html.h"
#include "report/html_sections.h"
#include "report/labels.h"
#include "report/svg_chart.h"

namespace kiln {
namespace {

constexpr int kNumColours = 8;
constexpr std::size_t kMostName = 60;

std::string name_html(const std::string& name) {
  return element("bdi", escaped(shortened(name, kMostName)));
}

std::string figures_html(const std::vector<NamedRun>& runs) {
  std::vector<Column> columns;
  for (const std::string& head : kComparisonHeads.cells())
    columns.push_back({head, head != kComparisonHeads.model && head != kComparisonHeads.status});
  std::vector<std::vector<std::string>> rows;
  for (const ComparisonRow& row : comparison_rows(runs)) {
    std::vector<std::string> cells;
    for (const std::string& cell : row.cells()) cells.push_back(escaped(cell));
    cells[0] = element(formatted("span class=\"key c%zu\"", rows.size() % kNumColours),
                       name_html(row.run));
    rows.push_back(cells);
  }
  columns[0].is_number = false;
  const std::string finding = comparison_finding(runs);
  return section("runs", "Which is best?",
                 (finding.empty() ? "" : element("p class=\"verdict\"", escaped(finding))) +
                     table("Runs, the best top-1 first", columns, rows));
}

template <typename Value>
std::string chart_of(const std::vector<NamedRun>& runs, const char* title, Unit unit,
                     Value&& value) {
  LineChart chart{title, unit, {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series{
        shortened(runs[i].name, kMostName), static_cast<int>(i % kNumColours), false, false, {}};
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
  return section("curves", "How they learned", element("div class=\"charts\"", "\n" + charts));
}

std::string differences_html(const std::vector<NamedRun>& runs) {
  std::vector<Column> columns = {{"option", false}};
  for (const NamedRun& named : runs) columns.push_back({shortened(named.name, kMostName), false});
  std::vector<std::vector<std::string>> rows;
  for (const OptionDifference& difference : option_differences(runs)) {
    rows.push_back({escaped(difference.name)});
    for (const std::string& value : difference.values)
      rows.back().push_back(value.empty() ? "–" : name_html(value));
  }
  return section("options", "In what they differ",
                 rows.empty() ? element("p", "All options that matter are the same.")
                              : table("Options that differ", columns, rows));
}

}  // namespace

std::string comparison_html(const std::vector<NamedRun>& runs) {
  const std::string title = formatted("%zu runs compared", runs.size());
  return page_html(
      title + " – Kiln",
      element("header", element("p class=\"brand\"", "Kiln") + element("h1", title)) +
          element("main", figures_html(runs) + charts_html(runs) + differences_html(runs)));
}

}  // namespace kiln
