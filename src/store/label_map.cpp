#include <cstdint>
#include <optional>
#include <string>

#include "store/model_directory.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxColumns = 2;

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string take_quoted_field(std::string_view& csv, std::size_t line) {
  std::string field;
  csv.remove_prefix(1);
  while (!csv.empty()) {
    const char c = csv.front();
    csv.remove_prefix(1);
    if (c == '"' && !csv.starts_with('"')) return field;
    if (c == '"') csv.remove_prefix(1);
    field += c;
  }
  throw FormatFault("line " + std::to_string(line) + " opens a quote that is never closed");
}

std::vector<std::string> take_line(std::string_view& csv, std::size_t line) {
  std::vector<std::string> fields;
  while (true) {
    if (csv.starts_with('"')) {
      fields.push_back(take_quoted_field(csv, line));
    } else {
      const std::size_t end = std::min(csv.find_first_of(",\r\n"), csv.size());
      fields.emplace_back(csv.substr(0, end));
      csv.remove_prefix(end);
    }
    const bool more = csv.starts_with(',');
    if (more) csv.remove_prefix(1);
    if (fields.size() > kMaxColumns || (!more && fields.size() != kMaxColumns)) {
      throw FormatFault("line " + std::to_string(line) + " does not have two columns");
    }
    if (!more) break;
  }
  if (csv.starts_with('\r')) csv.remove_prefix(1);
  if (!csv.empty() && !csv.starts_with('\n')) {
    throw FormatFault("line " + std::to_string(line) + " goes on behind a closed quote");
  }
  if (!csv.empty()) csv.remove_prefix(1);
  return fields;
}

}  // namespace

std::string format_label_map(const std::vector<std::string>& labels) {
  std::string csv = ",label\n";
  for (std::size_t id = 0; id < labels.size(); ++id) {
    csv += std::to_string(id) + ',' + csv_field(labels[id]) + '\n';
  }
  return csv;
}

std::vector<std::string> parse_label_map(std::string_view csv) {
  if (csv.starts_with("\xef\xbb\xbf")) csv.remove_prefix(3);
  if (csv.empty()) throw FormatFault("it is empty");
  if (take_line(csv, 1)[1] != "label") throw FormatFault("line 1 is not ',label'");
  std::vector<std::string> labels;
  while (!csv.empty()) {
    const std::size_t line = labels.size() + 2;
    std::vector<std::string> fields = take_line(csv, line);
    if (fields[0] != std::to_string(labels.size())) {
      throw FormatFault("line " + std::to_string(line) + " has id '" + fields[0].substr(0, 40) +
                        "' where " + std::to_string(labels.size()) + " is due");
    }
    labels.push_back(std::move(fields[1]));
  }
  return labels;
}

}  // namespace kiln
