// Sentences for people: numbers in them, only what a terminal can show, and no character cut apart.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// What printf would print; the compiler checks the format against the values.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// `text` with control characters (but the tabulator) and bytes that are no UTF-8 as \\x1b.
std::string printable(std::string_view text);

// Whether a character of UTF-8 begins with `byte`; others go on with one.
bool begins_character(char byte);

// The whole characters in the first `most` bytes of UTF-8 text.
std::string cut_to_bytes(std::string_view text, std::size_t most);

}  // namespace kiln
