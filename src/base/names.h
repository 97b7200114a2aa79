// Names of classes and files, as messages show them. Names that look alike but differ in bytes stay
// different names: an accent can be part of its letter (NFC, as most systems write it) or follow it
// (NFD, as macOS does), and some characters are not seen. Names of classes are UTF-8.
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

// 'name' for a message; if it may look like one of `known`, both with escapes: "'cafe\u0301' (which
// looks like 'caf\u00e9')".
std::string quoted_among(const std::string& name, const std::vector<std::string>& known);
// At most `most` of the names so, and the number of the rest.
std::string quoted_among(const std::vector<std::string>& names,
                         const std::vector<std::string>& known, std::size_t most);

// "a, b and 3 more".
std::string few_of(std::vector<std::string> names, std::size_t most);

// A note with the first two classes that may look alike; empty if none do.
std::string note_of_twins(const std::vector<std::string>& classes);

}  // namespace kiln
