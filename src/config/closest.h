// "Did you mean": the candidate most like a mistyped word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Insertions, deletions and replacements of bytes that turn `a` into `b` (Levenshtein 1966).
int edit_distance(std::string_view a, std::string_view b);

// Empty when nothing is near: more than a third of the word (at least two bytes) would have to
// change, and the word does not begin a candidate either. Equal candidates: the first.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// " Did you mean 'epochs'?", with `prefix` before the name, or an empty text.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix = "");

}  // namespace kiln
