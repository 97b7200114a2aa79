#include "model/weights/weight_match.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kNamedRows = 10;  // classes listed in the log

std::string count_text(std::int64_t count, const char* one, const char* more) {
  return std::to_string(count) + " " + (count == 1 ? one : more);
}

ClassRows without_names(std::size_t num_classes, std::int64_t num_rows) {
  ClassRows match{std::vector<std::int64_t>(num_classes, kFreshRow), ""};
  if (static_cast<std::int64_t>(num_classes) != num_rows) {
    match.text = "the last layer is fresh, since the weights have " +
                 count_text(num_rows, "output", "outputs") + " and the data " +
                 count_text(static_cast<std::int64_t>(num_classes), "class", "classes");
    return match;
  }
  std::iota(match.rows.begin(), match.rows.end(), 0);
  match.text =
      "the last layer is loaded too: it has one output per class, and the classes are assumed to "
      "have the same order";
  return match;
}

}  // namespace

bool ClassRows::any() const {
  return std::any_of(rows.begin(), rows.end(), [](std::int64_t row) { return row != kFreshRow; });
}

ClassRows match_classes(const std::vector<std::string>& classes,
                        const std::vector<std::string>& source_classes, std::int64_t num_rows) {
  if (source_classes.empty() || static_cast<std::int64_t>(source_classes.size()) != num_rows)
    return without_names(classes.size(), num_rows);
  std::unordered_map<std::string_view, std::int64_t> row_of;
  for (std::size_t row = 0; row < source_classes.size(); ++row)
    row_of.emplace(source_classes[row], static_cast<std::int64_t>(row));
  ClassRows match;
  std::vector<std::string> fresh;
  for (const std::string& name : classes) {
    const auto found = row_of.find(name);
    match.rows.push_back(found == row_of.end() ? kFreshRow : found->second);
    if (found == row_of.end()) fresh.push_back(name);
  }
  if (classes == source_classes)
    match.text = "the last layer is loaded too, since the classes are the same";
  else if (!match.any())
    match.text = "the last layer is fresh, since the weights know none of the classes";
  else if (fresh.empty())
    match.text = "the last layer reuses the rows of the same classes";
  else
    match.text = formatted("the last layer reuses the rows of %zu of %zu classes; fresh: ",
                           classes.size() - fresh.size(), classes.size()) +
                 quoted_names(fresh, kNamedRows);
  return match;
}

}  // namespace kiln
