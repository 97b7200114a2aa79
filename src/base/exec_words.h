// Words of a command in the form of exec's and spawn's argv.
#pragma once

#include <string>
#include <vector>

namespace kiln {

// Pointers into `words`, which must outlive them, and the null that ends them.
inline std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace kiln
