// A user's regular expression, matched against untrusted paths.
#pragma once

#include <regex>
#include <string>
#include <string_view>

namespace kiln {

constexpr std::size_t kMaxPatternBytes = 500;

// ECMAScript syntax without back references. The matcher follows all alternatives at once instead
// of backtracking, so neither time nor stack depth explodes, whatever the path. Thread-safe.
class PathPattern {
 public:
  // Throws std::invalid_argument, with a clause, if the pattern is not a regular expression, is
  // longer than kMaxPatternBytes, or has counted repetitions that multiply to more than 1000.
  explicit PathPattern(const std::string& pattern);

  // What the first capture group matched, or the whole match if there is no group; empty if nothing
  // matched. Only the beginning of a path longer than any file system allows is searched.
  std::string group_of(std::string_view path) const;

 private:
  std::regex regex_;
};

}  // namespace kiln
