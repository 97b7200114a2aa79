// Words as a user would type them in a shell.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// In quotes where the shell would read more into it than it is.
std::string shell_word(const std::string& word);

// Separated by spaces.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace kiln
