#include "base/names.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

// Calls `visit` with each character of UTF-8 text.
template <typename Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    const unsigned kept = first < 0x80 ? 0x7F : first < 0xE0 ? 0x1F : first < 0xF0 ? 0xF : 7;
    char32_t code = first & kept;
    for (; i < text.size() && !begins_character(text[i]); ++i)
      code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    visit(code);
  }
}

// Accents and the marks of kana that follow their letter, and the letters of a Hangul syllable.
bool is_mark(char32_t code) {
  return (code >= 0x300 && code <= 0x36F) || code == 0x3099 || code == 0x309A ||
         (code >= 0x1100 && code <= 0x11FF);
}

// Blanks other than the usual one, zero-width characters, line ends, marks of direction, the soft
// hyphen, a byte-order mark.
bool is_unseen(char32_t code) {
  return code == '\t' || code == 0xA0 || code == 0xAD || code == 0x61C || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200F) || (code >= 0x2028 && code <= 0x202F) ||
         (code >= 0x205F && code <= 0x2069) || code == 0x3000 || code == 0xFEFF;
}

struct Look {
  std::string letters;      // of ASCII, without those that a mark follows
  bool is_unclear = false;  // it has marks, or characters that are not seen
};

Look look_of(std::string_view name) {
  Look look;
  char32_t last = 0;
  for_each_character(name, [&](char32_t code) {
    look.is_unclear = look.is_unclear || is_mark(code) || is_unseen(code);
    if (is_mark(code) && last > ' ' && last < 0x80) look.letters.pop_back();
    if (code > ' ' && code < 0x80) look.letters += static_cast<char>(code);
    last = code;
  });
  return look;
}

// With every character beyond ASCII as \u00e9.
std::string escaped(std::string_view name) {
  std::string text;
  for_each_character(name, [&](char32_t code) {
    text += code < 0x80 ? std::string(1, static_cast<char>(code))
                        : formatted("\\u%04x", static_cast<unsigned>(code));
  });
  return printable(text);
}

std::string twin_text(std::string_view name, std::string_view twin) {
  return "'" + escaped(name) + "' (which looks like '" + escaped(twin) + "')";
}

}  // namespace

bool is_clean(std::string_view name) {
  bool clean = is_utf8(name);
  for_each_character(name, [&](char32_t code) {
    clean = clean && (code >= ' ' || code == '\t') && (code < 0x7F || code > 0x9F);
  });
  return clean;
}

std::string as_utf8(const std::string& name) {
  return is_utf8(name) ? name : printable(name);
}

std::string quoted_among(const std::string& name, const std::vector<std::string>& known) {
  const Look look = look_of(name);
  const auto twin = std::ranges::find_if(known, [&](const std::string& other) {
    const Look seen = look_of(other);
    return other != name && seen.letters == look.letters && (seen.is_unclear || look.is_unclear);
  });
  return twin == known.end() ? "'" + printable(name) + "'" : twin_text(name, *twin);
}

std::string quoted_among(const std::vector<std::string>& names,
                         const std::vector<std::string>& known, std::size_t most) {
  std::vector<std::string> shown = names;
  for (std::size_t i = 0; i < std::min(shown.size(), most); ++i)
    shown[i] = quoted_among(names[i], known);
  return few_of(std::move(shown), most);
}

std::string few_of(std::vector<std::string> names, std::size_t most) {
  const std::size_t count = names.size();
  names.resize(std::min(count, most));
  return joined(names, ", ") + (count > most ? formatted(" and %zu more", count - most) : "");
}

std::string note_of_twins(const std::vector<std::string>& classes) {
  std::map<std::string, std::pair<std::string_view, bool>> seen;  // by letters
  for (const std::string& name : classes) {
    const auto [letters, is_unclear] = look_of(name);
    const auto [other, is_new] = seen.try_emplace(letters, name, is_unclear);
    if (!is_new && (is_unclear || other->second.second))
      return "two classes look alike: " + twin_text(name, other->second.first);
  }
  return {};
}

}  // namespace kiln
