// From numbers to places in a chart.
#pragma once

#include <string>
#include <vector>

namespace kiln {

struct Point {
  double x = 0, y = 0;
};

// At most about `most` of the points, in their order: of each stretch the lowest, the highest and
// one that is not finite, and the first and last of all. Curves keep their peaks.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

// One direction of a chart, from round number to round number.
struct Scale {
  double low = 0, high = 1, step = 1;  // of its marks

  std::vector<double> marks() const;
  // 0 at `low`, 1 at `high`.
  double place(double value) const { return (value - low) / (high - low); }
  // With as many decimals as tell the marks apart.
  std::string mark_text(double value) const;
};

// Holds `low` to `high`, with `most` marks or a few more, a step of 1, 2 or 5 times a power of ten
// between them, at least `smallest_step`.
Scale round_scale(double low, double high, int most, double smallest_step = 0);

// Of the finite ones among `values`, and 0 where that is not far. 0 to 1 for none.
Scale value_scale(const std::vector<double>& values);

}  // namespace kiln
