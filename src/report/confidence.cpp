#include "report/confidence.h"

#include <algorithm>
#include <cmath>

namespace kiln {

Interval wilson_interval(std::int64_t hits, std::int64_t count) {
  if (count <= 0) return {};
  constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % quantile
  const auto n = static_cast<double>(count);
  const double share = static_cast<double>(hits) / n;
  const double centre = (share + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double reach =
      kZ / (1 + kZ * kZ / n) * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return {std::max(0.0, centre - reach), std::min(1.0, centre + reach)};
}

}  // namespace kiln
