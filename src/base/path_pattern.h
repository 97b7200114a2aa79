// A regular expression that a user gives, matched on paths from anywhere.
#pragma once

#include <regex>
#include <string>
#include <string_view>

namespace kiln {

constexpr std::size_t kMaxPatternBytes = 500;

// ECMAScript's syntax without back references. Matched by following all ways at once, so that
// neither time nor stack explode, whatever the path. Any number of threads.
class PathPattern {
 public:
  // Throws std::invalid_argument, a clause: not a regular expression, longer than
  // kMaxPatternBytes, or with counted repeats that multiply to more than 1000.
  explicit PathPattern(const std::string& pattern);

  // What the first capture group matched, or the whole match where there is none; empty: no
  // match. Of a path longer than any file system allows only the beginning is looked at.
  std::string group_of(std::string_view path) const;

 private:
  std::regex regex_;
};

}  // namespace kiln
