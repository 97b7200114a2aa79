// Sentences for people: numbers in them, and only what a terminal can show.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// What printf would print; the compiler checks the format against the values.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// `text` with control characters (but the tabulator) and bytes that are no UTF-8 as \\x1b.
std::string printable(std::string_view text);

}  // namespace kiln
