#include "base/csv.h"

#include <algorithm>
#include <stdexcept>

#include "base/text_file.h"

namespace kiln {

CsvReader::CsvReader(std::string_view text) : rest_(without_byte_order_mark(text)) {}

bool CsvReader::next(std::vector<std::string>& fields) {
  while (!rest_.empty() && at_line_end()) skip_line_end();
  row_line_ = line_;
  if (rest_.empty()) return false;
  std::size_t count = 0;
  while (true) {
    if (count == kMaxCsvColumns)
      throw std::invalid_argument("it has more than " + std::to_string(kMaxCsvColumns) + " fields");
    if (fields.size() == count) fields.emplace_back();
    take_field(fields[count++]);
    if (rest_.empty() || at_line_end()) break;
    rest_.remove_prefix(1);  // the comma
  }
  fields.resize(count);
  if (!rest_.empty()) skip_line_end();
  return true;
}

// Takes the next field from the text, but not the comma or line end after it.
void CsvReader::take_field(std::string& field) {
  if (rest_.starts_with('"')) {
    take_quoted(field);
  } else {
    const std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
    field = rest_.substr(0, end);
    if (end < rest_.size() && rest_[end] == '\n' && field.ends_with('\r')) field.pop_back();
    if (field.find('"') != field.npos)
      throw std::invalid_argument("it has a quote inside an unquoted field");
    rest_.remove_prefix(field.size());
  }
  if (field.find('\0') != field.npos) throw std::invalid_argument("it has a zero byte");
}

void CsvReader::take_quoted(std::string& field) {
  field.clear();
  rest_.remove_prefix(1);
  while (true) {
    const std::size_t end = rest_.find('"');
    if (end == rest_.npos) throw std::invalid_argument("a quote in it is never closed");
    field += rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  line_ += static_cast<int>(std::count(field.begin(), field.end(), '\n'));
  if (!rest_.empty() && rest_.front() != ',' && !at_line_end())
    throw std::invalid_argument("it has text after a closing quote");
}

bool CsvReader::at_line_end() const {
  return rest_.starts_with('\n') || rest_.starts_with("\r\n");
}

void CsvReader::skip_line_end() {
  rest_.remove_prefix(rest_.front() == '\r' ? 2 : 1);
  ++line_;
}

}  // namespace kiln
