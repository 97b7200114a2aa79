#include "report/chart_scale.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace kiln {
namespace {

constexpr int kMarks = 5;

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// What of `stretch` thinned() keeps, in order.
void keep_extremes(const Point* begin, const Point* end, std::vector<Point>* kept) {
  const Point *lowest = nullptr, *highest = nullptr, *odd = nullptr;
  for (const Point* point = begin; point != end; ++point) {
    if (!std::isfinite(point->y)) {
      odd = point;
      continue;
    }
    if (lowest == nullptr || point->y < lowest->y) lowest = point;
    if (highest == nullptr || point->y > highest->y) highest = point;
  }
  for (const Point* point = begin; point != end; ++point)
    if (point == lowest || point == highest || point == odd) kept->push_back(*point);
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t stretches = std::max<std::size_t>(1, most / 2);
  std::vector<Point> kept = {points.front()};
  const Point* inner = points.data() + 1;
  const std::size_t count = points.size() - 2;
  for (std::size_t i = 0; i < stretches; ++i)
    keep_extremes(inner + count * i / stretches, inner + count * (i + 1) / stretches, &kept);
  kept.push_back(points.back());
  return kept;
}

std::vector<double> Scale::marks() const {
  std::vector<double> marks;
  const auto count = static_cast<int>(std::lround((high - low) / step));
  for (int i = 0; i <= count; ++i) marks.push_back(low + i * step);
  return marks;
}

std::string Scale::mark_text(double value) const {
  if (std::abs(value) < step / 2) value = 0;
  if (std::max(std::abs(low), std::abs(high)) >= 1e6 || high - low < 1e-3)
    return formatted("%.3g", value);
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  return formatted("%.*f", decimals, value);
}

Scale round_scale(double low, double high, int most, double smallest_step) {
  // What is flat needs some height, and what cannot be told apart is flat.
  const double size = std::max(std::abs(low), std::abs(high));
  if (!(high - low > 1e-9 * size) || high - low < 1e-30) {
    const double room = size > 0 ? 0.1 * size : 1;
    low -= low == 0 ? 0 : room;
    high += room;
  }
  const double step = std::max(round_step((high - low) / most), smallest_step);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
}

Scale value_scale(const std::vector<double>& values) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || std::abs(value) > 1e100) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return {0, 1, 0.2};
  if (low > 0 && low < 0.5 * high) low = 0;
  return round_scale(low, high, kMarks);
}

}  // namespace kiln
