// The spread of repeated measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace kiln {

struct Spread {
  double median = 0, least = 0, most = 0;
};

// `values` must not be empty.
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

}  // namespace kiln
