// Text for people and shells: numbers in sentences, only what a terminal can show, no character cut
// apart, "did you mean"; and bytes as base64.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// What printf would print; the compiler checks the format against the values.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

// `text` with control characters (but the tabulator) and bytes that are no UTF-8 as \\x1b.
std::string printable(std::string_view text);

// Whether a character of UTF-8 begins with `byte`; others go on with one.
bool begins_character(char byte);

// The whole characters in the first `most` bytes of UTF-8 text.
std::string cut_to_bytes(std::string_view text, std::size_t most);

// Bytes as text (RFC 4648, section 4: with padding, without line breaks).

std::string base64(std::string_view bytes);

// Throws std::invalid_argument for what base64() cannot have made.
std::string from_base64(std::string_view text);

// "1 h 02 min", "3 min 20 s", "4.2 s".
std::string duration_text(double seconds);
// "1.2 GB", "820 MB".
std::string bytes_text(long long bytes);
// "11,699,132".
std::string grouped(long long number);

// `text` as a message shows it: its beginning, where it is long.
std::string excerpt(const std::string& text);

// "resnet18, resnet34 or resnet50".
std::string join_choices(const std::vector<std::string>& choices);

// Whether this can be the name of a host, and no option of ssh or separator of a list.
bool is_host_name(std::string_view text);

// Words as a user would type them in a shell.

// In quotes where the shell would read more into it than it is.
std::string shell_word(const std::string& word);

// Separated by spaces.
std::string shell_words(const std::vector<std::string>& words);

// "Did you mean": the candidate closest to a mistyped word.

// Insertions, deletions and replacements of bytes that turn `a` into `b` (Levenshtein 1966).
int edit_distance(std::string_view a, std::string_view b);

// Empty if nothing is close: more than a third of the word (at least two bytes) would have to
// change, and no candidate starts with the word. On ties, the first.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// " Did you mean 'epochs'?", with `prefix` before the name, or an empty text.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix = "");

}  // namespace kiln
