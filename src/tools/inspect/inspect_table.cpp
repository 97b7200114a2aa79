#include "tools/inspect/inspect_table.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/text.h"

namespace kiln {
namespace {

std::string cell(const InspectReport& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  return value.dump();
}

// A table of objects with the same keys: the keys, then a row for each object, columns aligned.
std::string rows_text(const InspectReport& rows) {
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [key, value] : rows.front().items()) lines[0].push_back(key);
  for (const InspectReport& row : rows) {
    lines.emplace_back();
    for (const auto& [key, value] : row.items()) lines.back().push_back(cell(value));
  }
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    text += "\n ";
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += ' ' + line[i];
      if (i + 1 < line.size()) text.append(widths[i] - line[i].size() + 1, ' ');
    }
  }
  return text;
}

std::string list_text(const InspectReport& list) {
  if (list.empty()) return "none";
  if (list.front().is_object()) return rows_text(list);
  std::string text;
  for (const InspectReport& value : list) {
    if (!text.empty()) text += value.is_string() ? "; " : ", ";
    text += cell(value);
  }
  return text;
}

}  // namespace

std::string table_text(const InspectReport& report) {
  constexpr std::size_t kNameWidth = 20;
  std::string text;
  for (const auto& [key, value] : report.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (!text.empty()) text += '\n';
    const std::string shown = value.is_array() ? list_text(value) : cell(value);
    if (!shown.starts_with('\n')) name.resize(std::max(name.size() + 1, kNameWidth), ' ');
    text += name + shown;
  }
  return text;
}

}  // namespace kiln
