// What a terminal can show.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// Of standard output; 80 where nothing tells.
int terminal_columns();

// Whether the locale's characters are UTF-8 (LC_ALL, LC_CTYPE or LANG, the first that is set).
bool locale_is_utf8();

// The first `columns` characters of UTF-8 text, each taken for one column.
std::string cut_to(std::string_view text, int columns);

}  // namespace kiln
