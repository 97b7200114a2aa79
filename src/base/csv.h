// Strict reading of untrusted CSV files (RFC 4180). csv_field() in base/text.h writes a field.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

constexpr std::size_t kMaxCsvColumns = 100;

// Reads a text row by row. Fields are separated by commas; a field in double quotes may contain
// commas, line breaks, and quotes written as "". Lines end with LF or CRLF. Empty lines and a byte
// order mark are skipped. Uses no memory beyond the fields of one row. Use from one thread.
class CsvReader {
 public:
  // `text` must outlive the reader.
  explicit CsvReader(std::string_view text);

  // Reads the next row; false at the end. Throws std::invalid_argument, with a clause that has no
  // line number, for a quote inside an unquoted field, text after a quoted field, an unterminated
  // quote, a NUL byte, or more than kMaxCsvColumns fields.
  bool next(std::vector<std::string>& fields);

  // The line, from 1, on which the last row starts, or the row with the fault.
  int line() const { return row_line_; }

 private:
  void take_field(std::string& field);
  void take_quoted(std::string& field);
  bool at_line_end() const;
  void skip_line_end();

  std::string_view rest_;
  int line_ = 1, row_line_ = 1;
};

}  // namespace kiln
