#include "base/text.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kiln {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(std::string_view text) {
  CsvReader reader(text);
  Rows rows;
  for (std::vector<std::string> fields; reader.next(fields);) rows.push_back(fields);
  return rows;
}

std::string fault_of(std::string_view text) {
  CsvReader reader(text);
  std::vector<std::string> fields;
  try {
    while (reader.next(fields)) continue;
  } catch (const std::invalid_argument& fault) {
    return std::to_string(reader.line()) + ": " + fault.what();
  }
  return "no fault";
}

TEST(Csv, ReadsWhatSpreadsheetsWrite) {
  EXPECT_EQ(rows_of(""), Rows{});
  EXPECT_EQ(rows_of("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "a,b\r\n\r\n1,\r\n,2"),
            (Rows{{"a", "b"}, {"1", ""}, {"", "2"}}));
  EXPECT_EQ(rows_of("\"a,\"\"b\"\"\n\",c\n"), (Rows{{"a,\"b\"\n", "c"}}));
  EXPECT_EQ(rows_of("a\rb,c\n"), (Rows{{"a\rb", "c"}}));
}

TEST(Csv, NamesTheLineOfAFault) {
  EXPECT_EQ(fault_of("a\n\nb\"c\n"), "3: it has a quote inside an unquoted field");
  EXPECT_EQ(fault_of("\"a\nb\"\n\"c\"d\n"), "3: it has text after a closing quote");
  EXPECT_EQ(fault_of("a\n\"b\nc"), "2: a quote in it is never closed");
  EXPECT_EQ(fault_of(std::string_view("a\0b\n", 4)), "1: it has a zero byte");
  EXPECT_EQ(fault_of(std::string(kMaxCsvColumns - 1, ',')), "no fault");
  EXPECT_EQ(fault_of(std::string(kMaxCsvColumns, ',')), "1: it has more than 100 fields");
}

}  // namespace
}  // namespace kiln
