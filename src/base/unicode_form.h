// Names that look alike but differ in bytes: an accent can be part of its letter (NFC, as most
// systems write it) or follow it (NFD, as macOS does); letters may be small or capital, blanks of
// other kinds or numbers, and some characters are not seen. They stay different names; messages
// tell them apart. Names are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Whether a name is UTF-8 without control characters (except tabs).
bool is_clean(std::string_view name);

// A name of any bytes, such as a file's, where text must be UTF-8: itself, or with what is not
// UTF-8 escaped as \\xe9.
std::string as_utf8(const std::string& name);

// 'name' for a message; if one of `known` is the same name in another Unicode form: "'cafe\u0301'
// (the same name as 'caf\u00e9' in another Unicode form: rename one)".
std::string quoted_among(const std::string& name, const std::vector<std::string>& known);
// At most `most` of the names so, and the number of the rest.
std::string quoted_among(const std::vector<std::string>& names,
                         const std::vector<std::string>& known, std::size_t most);

// A note naming two of the names that look alike, and how many more do; empty if none do.
std::string note_of_twins(const std::vector<std::string>& names);

}  // namespace kiln
