#include "base/text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace kiln {

namespace {

// The length of the UTF-8 sequence at the beginning of `text`; 0: there is none. Unicode 15, table
// 3-7.
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

// C0 but the tabulator, and C1 (U+0080 to U+009F), which terminals take for escape sequences.
bool is_control(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.size() == 1) return (last < 0x20 && last != '\t') || last == 0x7F;
  return character.size() == 2 && character[0] == '\xC2' && last < 0xA0;
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

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    if (length == 0 || is_control(character))
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

std::string cut_to_bytes(std::string_view text, std::size_t most) {
  std::size_t end = std::min(most, text.size());
  while (end > 0 && end < text.size() && !begins_character(text[end])) --end;
  return std::string(text.substr(0, end));
}

}  // namespace kiln
