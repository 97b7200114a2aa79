// Text for people and shells: formatted numbers, safe terminal output, UTF-8, "did you mean"; and
// base64.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln {

// Like sprintf; the compiler checks the format against the arguments.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// `text` with control characters but tabs, marks of direction and invalid UTF-8 as \\x1b.
std::string printable(std::string_view text);

bool is_utf8(std::string_view text);

// Whether `byte` starts a UTF-8 character rather than continuing one.
bool begins_character(char byte);

// The first `columns` characters of UTF-8 text, counting each as one column.
std::string cut_to(std::string_view text, int columns);

// The longest prefix of UTF-8 text with at most `most` bytes that does not split a character.
std::string cut_to_bytes(std::string_view text, std::size_t most);

// RFC 4648, section 4: with padding, without line breaks.

std::string base64(std::string_view bytes);

// Throws std::invalid_argument for anything that base64() does not produce.
std::string from_base64(std::string_view text);

// "1 h 02 min", "3 min 20 s", "4.2 s".
std::string duration_text(double seconds);
// "1.2 GB", "820 MB".
std::string bytes_text(long long bytes);
// "11,699,132".
std::string grouped(long long number);
// "1,200 images", "1 image".
std::string plural(long long count, const char* one, const char* many);

// `text` with its ASCII letters in lower case.
std::string in_small_letters(std::string_view text);

// `text` for a message: without secrets of URLs, and shortened if long.
std::string excerpt(const std::string& text);

// `text` up to the first line break.
std::string first_line(std::string_view text);

// Takes the next line from `text` and returns it without its end, LF.
std::string_view take_line(std::string_view& text);

// `text` without the `blanks` at its beginning and end.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

// The first `most` bytes of a text from others, in single quotes, for a message.
std::string quoted_beginning(std::string_view text, std::size_t most = 200);

// The shortest text that parses as the same number; `form`: a std::chars_format, or none.
template <std::floating_point Number, typename... Form>
std::string shortest_text(Number value, Form... form) {
  char digits[400];
  return {digits, std::to_chars(digits, digits + sizeof digits, value, form...).ptr};
}

// The number that the whole text is; empty: it is none, or does not fit. `form`: a base, or none.
template <typename Number, typename... Form>
std::optional<Number> number_in(std::string_view text, Form... form) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [last, fault] = std::from_chars(text.data(), end, number, form...);
  return fault == std::errc() && last == end ? std::optional(number) : std::nullopt;
}

// The value of the first pair with this name; empty: there is none.
std::string value_of(const std::vector<std::pair<std::string, std::string>>& pairs,
                     std::string_view name);

// As 16 hexadecimal digits.
std::string hex_digits(std::uint64_t number);

std::string joined(const std::vector<std::string>& parts, std::string_view separator);

// What `of`, a function or a member, gives for each element, in order.
template <typename Range, typename Of>
auto list_from(const Range& range, Of&& of) {
  std::vector<std::remove_cvref_t<decltype(std::invoke(of, *range.begin()))>> list;
  list.reserve(range.size());
  for (const auto& element : range) list.push_back(std::invoke(of, element));
  return list;
}

// The row of a table with this name; null: none.
template <typename Rows>
constexpr const typename Rows::value_type* find_row(const Rows& rows, std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

// A table as lines, with a line end each: columns are padded to the widest cell, in characters.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::string_view gap = "  ");

// The parts of a list with commas.
std::vector<std::string> items_of(std::string_view list);

// A field of a CSV file, quoted only if necessary (RFC 4180).
std::string csv_field(const std::string& text);

// "resnet18, resnet34 or resnet50".
std::string join_choices(const std::vector<std::string>& choices);

// "'a', 'b' and 3 more": at most `most` names, and the number of the rest.
std::string quoted_names(const std::vector<std::string>& names, std::size_t most);

// Whether this can be a host name, and cannot be taken for an ssh option or a list separator.
bool is_host_name(std::string_view text);

// Words as a user would type them in a shell:

// Quoted if the shell would not take it literally.
std::string shell_word(const std::string& word);

// Separated by spaces.
std::string shell_words(const std::vector<std::string>& words);

// The number of byte insertions, deletions and substitutions that turn `a` into `b` (Levenshtein
// 1966).
int edit_distance(std::string_view a, std::string_view b);

// The candidate closest to `word`, ignoring case; the first one on ties. Empty if none is close: a
// candidate must be within a third of the word's length in edits (at least two), or start with the
// word if that has three bytes or more.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// " Did you mean 'epochs'?", with `prefix` before the name, or an empty text.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix = "");

// Strict reading of untrusted CSV files (RFC 4180). csv_field() writes a field.

constexpr std::size_t kMaxCsvColumns = 100;

// Reads a text row by row. A field in double quotes may contain separators, line breaks, and quotes
// written as "". Lines end with LF or CRLF. Empty lines and a byte order mark are skipped. Uses no
// memory beyond the fields of one row. Use from one thread.
class CsvReader {
 public:
  // `text` must outlive the reader.
  explicit CsvReader(std::string_view text, char separator = ',');

  // Reads the next row; false at the end. Throws std::invalid_argument, with a clause that has no
  // line number, for a quote inside an unquoted field, text after a quoted field, an unterminated
  // quote, a NUL byte, or more than kMaxCsvColumns fields.
  bool next(std::vector<std::string>& fields);

  // The line, from 1, on which the last row starts, or the row with the fault.
  int line() const { return row_line_; }

 private:
  void parse_field(std::string& field);
  void parse_quoted(std::string& field);
  bool at_line_end() const { return rest_.starts_with('\n') || rest_.starts_with("\r\n"); }
  void skip_line_end();

  std::string_view rest_;
  const char separator_;
  int line_ = 1, row_line_ = 1;
};

}  // namespace kiln
