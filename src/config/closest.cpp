#include "config/closest.h"

#include <algorithm>
#include <numeric>

namespace kiln {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestWord = 100;
  if (word.empty() || word.size() > kLongestWord) return "";
  const int limit = std::max(2, static_cast<int>(word.size()) / 3);
  int best = limit + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    int distance = edit_distance(word, candidate);
    // A word of one or two bytes is within two changes of many others.
    if (distance >= static_cast<int>(std::max(word.size(), candidate.size()))) continue;
    if (word.size() >= 3 && candidate.starts_with(word)) distance = std::min(distance, 1);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string_view prefix) {
  const std::string found = closest(word, candidates);
  if (found.empty()) return "";
  return " Did you mean '" + std::string(prefix) + found + "'?";
}

}  // namespace kiln
