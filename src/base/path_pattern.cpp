#include "base/path_pattern.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace kiln {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;
constexpr long long kMaxRepeats = 1000;

}  // namespace

PathPattern::PathPattern(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes)
    throw std::invalid_argument("it is longer than " + std::to_string(kMaxPatternBytes) + " bytes");
  // The counts of all repetitions are multiplied: libstdc++ copies a repeated part that many times,
  // including the repetitions nested in it, and recurses over the copies.
  long long product = 1;
  for (std::size_t at = pattern.find('{'); at != pattern.npos; at = pattern.find('{', at + 1)) {
    long long most = 0, number = 0;
    for (std::size_t i = at + 1; i < pattern.size() && pattern[i] != '}'; ++i) {
      const bool is_digit = std::isdigit(static_cast<unsigned char>(pattern[i])) != 0;
      number = is_digit ? std::min(number * 10 + (pattern[i] - '0'), kMaxRepeats + 1) : 0;
      most = std::max(most, number);
    }
    product *= std::max(most, 1LL);
    if (product > kMaxRepeats)
      throw std::invalid_argument("its repetitions in braces multiply to more than " +
                                  std::to_string(kMaxRepeats));
  }
  try {
    // The default matcher of libstdc++ backtracks, and recurses once for each byte of the path.
    regex_.assign(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& fault) {
    throw std::invalid_argument(fault.what());
  }
}

std::string PathPattern::group_of(std::string_view path) const {
  path = path.substr(0, kMaxPathBytes);
  std::cmatch match;
  if (!std::regex_search(path.data(), path.data() + path.size(), match, regex_)) return {};
  return match.size() > 1 ? match[1].str() : match[0].str();
}

}  // namespace kiln
