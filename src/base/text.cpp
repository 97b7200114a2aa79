#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <stdexcept>

#include "base/files.h"
#include "base/names.h"
#include "base/url.h"

namespace kiln {
namespace {

// Returns the length of the UTF-8 sequence at the beginning of `text`, which must not be empty, or
// 0 if it is invalid. See Unicode 15, table 3-7.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (begins_character(text[i])) return 0;
  const unsigned char second = byte(1);
  const bool out_of_range = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                            (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return out_of_range ? 0 : length;
}

// True for C0 except tabs, for DEL, and for C1 (U+0080 to U+009F): terminals interpret them as
// escape sequences.
bool is_control(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.size() == 1) return (last < 0x20 && last != '\t') || last == 0x7F;
  return character.size() == 2 && character[0] == '\xC2' && last < 0xA0;
}

// What ends or reorders a line for programs that know more of Unicode than a terminal: U+2028 and
// U+2029, and the marks of direction of UAX 9.
bool is_mark(std::string_view character) {
  constexpr std::string_view kMarks =
      "\u061C\u200E\u200F\u2028\u2029\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069";
  return character.size() > 1 && kMarks.find(character) != kMarks.npos;
}

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint32_t value_of(char digit) {
  const std::size_t value = kDigits.find(digit);
  if (value == std::string_view::npos) throw std::invalid_argument("not a base64 digit");
  return static_cast<std::uint32_t>(value);
}

}  // namespace

std::string formatted(const char* format, ...) {
  std::va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, values)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(values);
  return text;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    if (length == 0 || is_control(character) || is_mark(character))
      for (const char byte : character)
        shown += formatted("\\x%02x", static_cast<unsigned char>(byte));
    else
      shown += character;
    text.remove_prefix(character.size());
  }
  return shown;
}

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

std::string cut_to(std::string_view text, int columns) {
  std::size_t end = 0;
  for (int column = 0; column < columns && end < text.size(); ++column) {
    ++end;
    while (end < text.size() && !begins_character(text[end])) ++end;
  }
  return std::string(text.substr(0, end));
}

std::string cut_to_bytes(std::string_view text, std::size_t most) {
  std::size_t end = std::min(most, text.size());
  while (end > 0 && end < text.size() && !begins_character(text[end])) --end;
  return std::string(text.substr(0, end));
}

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= group.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  if (text.size() % 4 != 0) throw std::invalid_argument("base64 of the wrong length");
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::string_view group = text.substr(i, 4);
    const bool last = i + 4 == text.size();
    while (last && group.size() > 2 && group.back() == '=') group.remove_suffix(1);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k)
      bits = bits << 6 | (k < group.size() ? value_of(group[k]) : 0U);
    for (std::size_t k = 0; k + 1 < group.size(); ++k)
      bytes += static_cast<char>(bits >> (16 - 8 * k) & 255U);
  }
  return bytes;
}

std::string duration_text(double seconds) {
  constexpr double kMost = 1e10;
  if (!(std::abs(seconds) < kMost)) return "unknown";
  if (seconds < 60) return formatted("%.1f s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return formatted("%ld min %02ld s", whole / 60, whole % 60);
  return formatted("%ld h %02ld min", whole / 3600, whole % 3600 / 60);
}

std::string bytes_text(long long bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return formatted("%.2f GB", value / 1e9);
  if (bytes > 0 && bytes < 500'000) return formatted("%.0f kB", std::ceil(value / 1e3));
  return formatted("%.0f MB", value / 1e6);
}

std::string grouped(long long number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string plural(long long count, const char* one, const char* many) {
  return grouped(count) + " " + (count == 1 ? one : many);
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

std::string excerpt(const std::string& text) {
  constexpr std::size_t kMost = 100;
  const std::string shown = without_secrets(text);
  return shown.size() <= kMost ? shown : cut_to_bytes(shown, kMost) + "…";
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::string quoted_beginning(std::string_view text, std::size_t most) {
  return "'" + without_secrets(text).substr(0, most) + "'";
}

std::string value_of(const std::vector<std::pair<std::string, std::string>>& pairs,
                     std::string_view name) {
  for (const auto& [own, value] : pairs)
    if (own == name) return value;
  return {};
}

std::string hex_digits(std::uint64_t number) {
  return formatted("%016llx", static_cast<unsigned long long>(number));
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::string_view gap) {
  const auto width_of = [](const std::string& cell) {
    return static_cast<std::size_t>(std::ranges::count_if(cell, begins_character));
  };
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      (text += row[i]).append(widths[i] - width_of(row[i]), ' ').append(gap);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::vector<std::string> items_of(std::string_view list) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= list.size(); begin += items.back().size() + 1)
    items.emplace_back(list.substr(begin, list.find(',', begin) - begin));
  return items;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string join_choices(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

std::string quoted_names(const std::vector<std::string>& names, std::size_t most) {
  return few_of(list_from(names, [](auto& name) { return "'" + name + "'"; }), most);
}

bool is_host_name(std::string_view text) {
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./:=,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  return joined(list_from(words, shell_word), " ");
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestWord = 100;
  if (word.empty() || word.size() > kLongestWord) return "";
  const int limit = std::max(2, static_cast<int>(word.size()) / 3);
  int best = limit + 1;
  std::string found;
  const std::string small_word = in_small_letters(word);
  for (const std::string& candidate : candidates) {
    const std::string small_candidate = in_small_letters(candidate);
    int distance = edit_distance(small_word, small_candidate);
    // At this distance the words need not share a single letter. Without this check, a word of one
    // or two bytes would match many others.
    if (distance >= static_cast<int>(std::max(word.size(), candidate.size()))) continue;
    if (word.size() >= 3 && small_candidate.starts_with(small_word))
      distance = std::min(distance, 1);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix) {
  const std::string found = closest(word, candidates);
  if (found.empty()) return "";
  return " Did you mean '" + std::string(prefix) + found + "'?";
}

CsvReader::CsvReader(std::string_view text, char separator)
    : rest_(without_byte_order_mark(text)), separator_(separator) {}

bool CsvReader::next(std::vector<std::string>& fields) {
  while (!rest_.empty() && at_line_end()) skip_line_end();
  row_line_ = line_;
  if (rest_.empty()) return false;
  std::size_t count = 0;
  while (true) {
    if (count == kMaxCsvColumns)
      throw std::invalid_argument("it has more than " + std::to_string(kMaxCsvColumns) + " fields");
    if (fields.size() == count) fields.emplace_back();
    parse_field(fields[count++]);
    if (rest_.empty() || at_line_end()) break;
    rest_.remove_prefix(1);  // the separator
  }
  fields.resize(count);
  if (!rest_.empty()) skip_line_end();
  return true;
}

// Takes the next field from the text, but not the separator or line end after it.
void CsvReader::parse_field(std::string& field) {
  if (rest_.starts_with('"')) {
    parse_quoted(field);
  } else {
    const std::size_t end =
        std::min(rest_.find_first_of(std::array{separator_, '\n', '\0'}.data()), rest_.size());
    field = rest_.substr(0, end);
    if (end < rest_.size() && rest_[end] == '\n' && field.ends_with('\r')) field.pop_back();
    if (field.find('"') != field.npos)
      throw std::invalid_argument("it has a quote inside an unquoted field");
    rest_.remove_prefix(field.size());
  }
  if (field.find('\0') != field.npos) throw std::invalid_argument("it has a zero byte");
}

void CsvReader::parse_quoted(std::string& field) {
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
  if (!rest_.empty() && rest_.front() != separator_ && !at_line_end())
    throw std::invalid_argument("it has text after a closing quote");
}

void CsvReader::skip_line_end() {
  rest_.remove_prefix(rest_.front() == '\r' ? 2 : 1);
  ++line_;
}

}  // namespace kiln
