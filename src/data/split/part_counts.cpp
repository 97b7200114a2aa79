#include "data/split/part_counts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

// Reproduces the draws of NumPy's RandomState(42), with which scikit-learn breaks ties between
// classes.
class TieDraws {
 public:
  // Returns `count` of the `candidates`, drawn without replacement.
  std::vector<std::size_t> choose(std::vector<std::size_t> candidates, std::size_t count) {
    for (std::size_t i = candidates.size(); i > 1; --i)
      std::swap(candidates[i - 1], candidates[up_to(static_cast<std::uint32_t>(i - 1))]);
    candidates.resize(count);
    return candidates;
  }

 private:
  // Draws a number from 0 to `most` by rejection: takes as many bits as `most` has, until the
  // result is not above it.
  std::uint32_t up_to(std::uint32_t most) {
    std::uint32_t mask = most;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    std::uint32_t value = 0;
    do value = static_cast<std::uint32_t>(engine_()) & mask;
    while (value > most);
    return value;
  }

  std::mt19937 engine_{42};
};

// Returns how many of `draws` images come from each class, in proportion to `counts`. The order of
// the floating-point operations is scikit-learn's, because remainders that are equal there must be
// equal here.
std::vector<long long> proportional(const std::vector<long long>& counts, long long draws,
                                    TieDraws& ties) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
  std::vector<long long> shares(counts.size());
  std::vector<double> remainders(counts.size());
  long long lacking = draws;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const double exact = static_cast<double>(counts[c]) / all * static_cast<double>(draws);
    shares[c] = static_cast<long long>(std::floor(exact));
    remainders[c] = exact - std::floor(exact);
    lacking -= shares[c];
  }
  const std::set<double, std::greater<>> descending(remainders.begin(), remainders.end());
  for (const double remainder : descending) {
    if (lacking <= 0) break;
    std::vector<std::size_t> tied;
    for (std::size_t c = 0; c < counts.size(); ++c)
      if (remainders[c] == remainder) tied.push_back(c);
    const std::size_t count = std::min(tied.size(), static_cast<std::size_t>(lacking));
    for (const std::size_t c : ties.choose(std::move(tied), count)) ++shares[c];
    lacking -= static_cast<long long>(count);
  }
  return shares;
}

std::string why_not_by_class(const std::vector<ClassCounts>& classes,
                             const std::vector<long long>& sizes) {
  const auto num_parts = static_cast<long long>(sizes.size());
  for (const ClassCounts& of_class : classes)
    if (of_class.count < num_parts)
      return "class '" + printable(of_class.name) + "' has only " + std::to_string(of_class.count) +
             (of_class.count == 1 ? " image" : " images");
  const long long smallest = *std::min_element(sizes.begin(), sizes.end());
  if (smallest < static_cast<long long>(classes.size()))
    return "the smallest part has " + std::to_string(smallest) +
           (smallest == 1 ? " image" : " images") + ", fewer than the " +
           std::to_string(classes.size()) + " classes";
  return "";
}

}  // namespace

std::vector<long long> part_sizes(const std::vector<double>& fractions, long long n) {
  std::vector<long long> sizes;
  long long rest = n;
  for (std::size_t p = 0; p + 1 < fractions.size(); ++p) {
    const auto later = static_cast<long long>(fractions.size() - p - 1);
    const auto size = static_cast<long long>(std::floor(fractions[p] * static_cast<double>(n)));
    sizes.push_back(std::clamp(size, 1LL, rest - later));
    rest -= sizes.back();
  }
  sizes.push_back(rest);
  return sizes;
}

PartCounts share_out(const std::vector<ClassCounts>& classes, const std::vector<long long>& sizes) {
  PartCounts counts;
  counts.why_not = why_not_by_class(classes, sizes);
  if (!counts.why_not.empty()) return counts;
  std::vector<std::size_t> by_name(classes.size());  // the order in which ties are drawn
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::stable_sort(by_name.begin(), by_name.end(),
                   [&](std::size_t a, std::size_t b) { return classes[a].name < classes[b].name; });
  std::vector<long long> left;
  left.reserve(by_name.size());
  for (const std::size_t c : by_name) left.push_back(classes[c].count);
  TieDraws ties;
  for (const long long size : sizes) {
    const std::vector<long long> shares = proportional(left, size, ties);
    std::vector<long long>& wanted = counts.wanted.emplace_back(classes.size());
    for (std::size_t k = 0; k < by_name.size(); ++k) {
      wanted[by_name[k]] = shares[k];
      left[k] -= shares[k];
    }
  }
  return counts;
}

}  // namespace kiln
