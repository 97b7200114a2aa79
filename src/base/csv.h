// Strict reading of CSV files from outside (RFC 4180); base/text.h has csv_field(), which writes
// one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

constexpr std::size_t kMaxCsvColumns = 100;

// Reads a text row by row. Fields are separated by commas; one in double quotes may hold commas,
// line breaks, and quotes as "". Lines end with LF or CRLF; empty ones are skipped, as is a byte
// order mark. Takes no memory beyond one row's fields. One thread.
class CsvReader {
 public:
  // `text` must outlive it.
  explicit CsvReader(std::string_view text);

  // False at the end. Throws std::invalid_argument, a clause without line number: a quote inside
  // an unquoted field, text after a quoted one, a quote that is never closed, a NUL, or more than
  // kMaxCsvColumns fields.
  bool next(std::vector<std::string>& fields);

  // Where the last row begins, or the faulty one; from 1.
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
