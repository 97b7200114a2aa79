// The end of the report: warnings, data, and all that is needed to do the run again.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "report/html.h"
#include "report/html_sections.h"
#include "report/labels.h"
#include "report/lines.h"

namespace kiln {
namespace {

constexpr std::size_t kMostItems = 50;  // of a list
constexpr std::size_t kMostClasses = 1000;
constexpr std::size_t kMostText = 500;  // characters of one item

// "and 12 more" where only kMostItems of `count` are shown.
std::string more(std::size_t count) {
  return count <= kMostItems ? "" : element("p", formatted("and %zu more", count - kMostItems));
}

std::string value_html(const std::string& value) {
  return value.empty() ? "–" : element("bdi", escaped(shortened(value, kMostText)));
}

std::string pairs_table(const std::string& caption, const std::string& what,
                        const TextPairs& pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : pairs) rows.push_back({escaped(name), value_html(value)});
  return rows.empty() ? ""
                      : table(caption, {{what, false}, {what.empty() ? "" : "value", false}}, rows);
}

std::string fault_table(const std::vector<ImageFaultRecord>& faults) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(faults.size(), kMostItems); ++i)
    rows.push_back({value_html(faults[i].file), escaped(faults[i].data_set),
                    value_html(faults[i].fault),
                    faults[i].damaged ? "yes, as far as it goes" : "no"});
  if (rows.empty()) return "";
  return table("Faulty images", {{"file", false}, {"of", false}, {"fault", false}, {"used", false}},
               rows) +
         more(faults.size());
}

std::string count_table(const DataRecord& data) {
  const std::size_t count = std::min(data.classes.size(), kMostClasses);
  long long largest = 1;
  for (const long long images : data.train_counts) largest = std::max(largest, images);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<int>(i);
    const long long images = count_of(data.train_counts, label);
    rows.push_back(
        {element("bdi", escaped(class_name(data, label))),
         element(formatted("span class=\"bar\" style=\"--value:%.1f%%\"",
                           100 * static_cast<double>(images) / static_cast<double>(largest)),
                 grouped(images)),
         grouped(count_of(data.valid_counts, label))});
  }
  return table("Images by class", {{"class", false}, {"training"}, {"validation"}}, rows);
}

std::string size_text(int height, int width, int short_side) {
  std::string text = formatted("%d × %d pixels", width, height);
  if (short_side > 0) text += formatted(", short side to %d, then cut", short_side);
  return text;
}

std::string imbalance_text(const std::vector<long long>& counts) {
  if (counts.empty()) return "unknown";
  const auto [smallest, largest] = std::minmax_element(counts.begin(), counts.end());
  std::string text = grouped(*smallest) + " to " + grouped(*largest) + " images a class";
  if (*smallest > 0)
    text +=
        formatted(" (1 : %.3g)", static_cast<double>(*largest) / static_cast<double>(*smallest));
  return text;
}

}  // namespace

std::string warnings_html(const RunRecord& run) {
  std::string items;
  for (std::size_t i = 0; i < std::min(run.warnings.size(), kMostItems); ++i)
    items += element("li", escaped(shortened(run.warnings[i], kMostText))) + "\n";
  std::string html = items.empty() ? "" : element("ul", items) + more(run.warnings.size());
  html += fault_table(run.end.image_faults);
  if (html.empty()) html = element("p", "None.");
  return section("warnings", "Warnings of the run", html);
}

std::string data_html(const RunRecord& run) {
  const DataRecord& data = run.start.data;
  const RunSummary summary = summary_of(run);
  const TextPairs facts = {
      {"training images", grouped(summary.num_train) + ", in " + data.train_path},
      {"validation images", grouped(summary.num_valid) + ", in " + data.valid_path},
      {"classes", grouped(static_cast<long long>(data.classes.size()))},
      {"balance", imbalance_text(data.train_counts)},
      {"training size", size_text(data.image_height, data.image_width, data.resize_short_side)},
      {"validation size",
       size_text(data.eval_height, data.eval_width, data.eval_resize_short_side)},
      {"augmentation", data.augment},
      {"normalization",
       data.normalization + formatted(": mean %.3g %.3g %.3g, deviation %.3g %.3g %.3g",
                                      data.mean[0], data.mean[1], data.mean[2], data.std[0],
                                      data.std[1], data.std[2])}};
  return section("data", "Data",
                 pairs_table("Data", "", facts) + folded("Images by class", count_table(data)));
}

std::string settings_html(const RunRecord& run) {
  const RunStart& start = run.start;
  TextPairs results;
  if (!run.end.model_path.empty()) results.emplace_back("model written to", run.end.model_path);
  if (run.end.peak_memory_bytes > 0)
    results.emplace_back("peak memory", bytes_text(run.end.peak_memory_bytes));
  if (run.end.peak_device_bytes > 0)
    results.emplace_back("peak memory of the GPU", bytes_text(run.end.peak_device_bytes));
  results.emplace_back("images a step", std::to_string(start.global_batch));
  results.emplace_back("steps an epoch", std::to_string(start.steps_per_epoch));
  return section(
      "again", "Do it again",
      element("pre tabindex=\"0\"", element("code id=\"command\"", escaped(start.command))) +
          pairs_table("The run", "", results) +
          folded("All options", pairs_table("Options", "option", start.options)) +
          folded("Versions", pairs_table("Versions", "part", start.versions)));
}

}  // namespace kiln
