// What a terminal can show.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// That a line may take which is rewritten in place: those of standard output (80 where nothing
// tells), less what a Ctrl-C echoes at its end.
int live_columns();

// Whether standard output is a terminal on which a line can be rewritten in place.
bool rewrites_lines();

// Whether the locale's characters are UTF-8 (LC_ALL, LC_CTYPE or LANG, the first that is set).
bool locale_is_utf8();

// The first `columns` characters of UTF-8 text, each taken for one column.
std::string cut_to(std::string_view text, int columns);

}  // namespace kiln
