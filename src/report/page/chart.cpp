#include "report/page/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "base/text.h"
#include "report/page/html.h"

namespace kiln {
namespace {

double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// Appends the points of [begin, end) to keep: the lowest, the highest and one that is not finite.
void keep_extremes(const Point* begin, const Point* end, std::vector<Point>* kept) {
  const Point *lowest = nullptr, *highest = nullptr, *odd = nullptr;
  for (const Point* point = begin; point != end; ++point) {
    const bool is_finite = std::isfinite(point->y);
    if (!is_finite) odd = point;
    if (is_finite && (lowest == nullptr || point->y < lowest->y)) lowest = point;
    if (is_finite && (highest == nullptr || point->y > highest->y)) highest = point;
  }
  for (const Point* point = begin; point != end; ++point)
    if (point == lowest || point == highest || point == odd) kept->push_back(*point);
}

constexpr std::size_t kMaxPoints = 600, kMaxTableRows = 200, kMaxDots = 40;

std::string axis_text(const Scale& scale, double value, Unit unit) {
  if (unit != Unit::kPercent) return scale.mark_text(value);
  return Scale{100 * scale.low, 100 * scale.high, 100 * scale.step}.mark_text(100 * value) + " %";
}

// Returns the series that the text label and the table of values describe.
std::vector<const Series*> told(const LineChart& chart) {
  std::vector<const Series*> series;
  for (const Series& one : chart.series)
    if (!one.is_background && !one.points.empty()) series.push_back(&one);
  return series;
}

ChartFrame frame_of(const LineChart& chart) {
  std::vector<double> values;
  double last = 1;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) values.push_back(point.y);
    if (!series.points.empty()) last = std::max(last, series.points.back().x);
  }
  const bool has_steps = std::ranges::any_of(chart.series, &Series::holds);  // a schedule's
  ChartFrame frame = ChartFrame::of(last, last >= 2 ? 1 : 0, values, chart.unit, !has_steps);
  frame.x_name = chart.x_name;
  frame.x_unit = chart.x_unit;
  return frame;
}

// Returns an SVG group for one series: the line, with gaps where values are not finite, and the
// values as attributes for the page's script.
std::string line_svg(const Series& series, const ChartFrame& frame) {
  std::string path, xs, ys, dots;
  bool pen_is_down = false;
  double before = series.points.empty() ? 0 : std::ceil(series.points.front().x) - 1;
  const std::vector<Point> points = thinned(series.points, kMaxPoints);
  for (const Point& point : points) {
    const double begin = std::exchange(before, point.x);
    if (!std::isfinite(point.y)) {
      pen_is_down = false;
      continue;
    }
    const double left = frame.left(point.x), top = frame.top(point.y);
    path += series.holds ? formatted("%c%.1f %.1fH%.1f", pen_is_down ? 'L' : 'M', frame.left(begin),
                                     top, left)
                         : formatted("%c%.1f %.1f", pen_is_down ? 'L' : 'M', left, top);
    pen_is_down = true;
    xs += formatted(xs.empty() ? "%.6g" : " %.6g", point.x);
    ys += formatted(ys.empty() ? "%.9g" : " %.9g", point.y);
    if (points.size() <= kMaxDots && !series.is_background && !series.holds)
      dots += formatted("M%.1f %.1fh0", left, top);
  }
  if (xs.empty()) return "";
  const std::string attributes = formatted("g class=\"line c%d%s\" data-name=\"", series.color,
                                           series.is_background ? " background" : "") +
                                 escaped(series.name) + "\" data-x=\"" + xs + "\" data-y=\"" + ys +
                                 "\"";
  if (!dots.empty()) dots = "<path class=\"dots\" d=\"" + dots + "\"/>";
  return element(attributes, "<path d=\"" + path + "\"/>" + dots) + "\n";
}

std::string legend(const LineChart& chart) {
  std::string items;
  for (const Series& series : chart.series) {
    if (series.points.empty()) continue;
    std::string text = escaped(series.name);
    if (!series.is_background && chart.x_unit == Unit::kPlain)  // the latest value
      text += " " + element("b", escaped(value_text(series.points.back().y, chart.unit)));
    items += element(
        formatted("li class=\"c%d%s\"", series.color, series.is_background ? " background" : ""),
        text);
  }
  return element("ul class=\"legend\"", items);
}

std::string in_words(const LineChart& chart) {
  std::string text = chart.title + " by " + chart.x_name + ".";
  for (const Series* series : told(chart))
    text += " " + series->name + " from " + value_text(series->points.front().y, chart.unit) +
            " to " + value_text(series->points.back().y, chart.unit) + ".";
  return text + " The table below lists the values.";
}

// One row per x, or about kMaxTableRows evenly spaced ones if there are more.
std::string value_table(const LineChart& chart) {
  const std::vector<const Series*> series = told(chart);
  std::vector<Column> columns = {{chart.x_name}};
  std::map<double, Cells> by_x;
  for (std::size_t i = 0; i < series.size(); ++i) {
    columns.push_back({series[i]->name});
    for (const Point& point : series[i]->points) {
      Cells& cells = by_x[point.x];
      cells.resize(series.size());
      cells[i] = escaped(value_text(point.y, chart.unit));
    }
  }
  std::vector<Cells> rows;
  const std::size_t stride = (by_x.size() + kMaxTableRows - 1) / kMaxTableRows;
  std::size_t number = 0;
  for (auto& [x, cells] : by_x) {
    if (++number % stride != 0 && number != by_x.size()) continue;
    cells.insert(cells.begin(),
                 chart.x_unit == Unit::kPlain ? formatted("%.6g", x) : value_text(x, chart.x_unit));
    rows.push_back(std::move(cells));
  }
  return table(chart.title, columns, rows);
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

double Scale::place(double value) const {
  if (!is_log) return (value - low) / (high - low);
  return value > 0 ? std::log(value / low) / std::log(high / low) : -1;
}

std::vector<double> Scale::marks() const {
  std::vector<double> marks;
  if (is_log) {
    for (double mark = low; mark <= high * 1.01; mark *= 10) marks.push_back(mark);
    return marks;
  }
  const auto count = static_cast<int>(std::lround((high - low) / step));
  for (int i = 0; i <= count; ++i) marks.push_back(low + i * step);
  return marks;
}

std::string Scale::mark_text(double value) const {
  if (is_log) return formatted("%g", value);
  if (std::abs(value) < step / 2) value = 0;
  if (std::max(std::abs(low), std::abs(high)) >= 1e6 || high - low < 1e-3)
    return formatted("%.3g", value);
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  return formatted("%.*f", decimals, value);
}

Scale round_scale(double low, double high, int most, double smallest_step) {
  // A flat series needs some height; values too close to distinguish count as flat.
  const double size = std::max(std::abs(low), std::abs(high));
  if (!(high - low > 1e-9 * size) || high - low < 1e-30) {
    const double room = size > 0 ? 0.1 * size : 1;
    low -= low == 0 ? 0 : room;
    high += room;
  }
  const double step = std::max(round_step((high - low) / most), smallest_step);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
}

double highest_shown(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  std::ranges::sort(values);
  constexpr std::size_t kFewest = 5;
  if (values.size() < kFewest) return values.empty() ? 0 : values.back();
  constexpr double kMuch = 10, kLittle = 1.5;  // the height of all values / that of nine tenths
  const double low = values.front(), most = values[(values.size() - 1) * 9 / 10] - low;
  if (values.back() - low <= kMuch * most || most == 0) return values.back();
  return *std::prev(std::ranges::upper_bound(values, low + kLittle * most));
}

Scale value_scale(const std::vector<double>& values, Unit unit, bool may_be_log) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || std::abs(value) > 1e100) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return {0, 1, 0.2};
  constexpr double kWide = 300;
  if (may_be_log && unit == Unit::kPlain && low > 0 && high > kWide * low)
    return {std::pow(10, std::floor(std::log10(low))), std::pow(10, std::ceil(std::log10(high))), 1,
            true};
  if (low > 0 && low < 0.5 * high) low = 0;
  if (unit == Unit::kPercent && high <= 1 && high - low < 0.01) {  // flat
    low = std::max(0.0, low - 0.1);
    high = std::min(1.0, high + 0.1);
  }
  return round_scale(low, high, 5);
}

std::string value_text(double value, Unit unit) {
  if (std::isnan(value)) return unit == Unit::kPlain ? "diverged" : "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  if (unit == Unit::kPercent) return formatted("%.1f %%", 100 * value);
  if (unit == Unit::kSeconds) return duration_text(value);
  if (std::abs(value) >= 10'000 && std::abs(value) < 1e12) return grouped(std::llround(value));
  return formatted("%.4g", value);
}

ChartFrame ChartFrame::of(double last_x, double smallest_x_step, const std::vector<double>& values,
                          Unit unit, bool may_be_log) {
  const double most = highest_shown(values);
  std::vector<double> shown;
  ChartFrame frame;
  frame.unit = unit;
  frame.x = round_scale(0, last_x, 6, smallest_x_step);
  for (const double value : values) {
    if (value <= most) shown.push_back(value);
    if (std::isfinite(value)) frame.highest = std::max(frame.highest, value);
  }
  frame.x.high = last_x;
  frame.y = value_scale(shown, unit, may_be_log);
  return frame;
}

std::string ChartFrame::html(const std::string& label, const std::string& curves,
                             const std::string& marks) const {
  std::string lines, y_numbers, x_numbers;
  for (const double mark : y.marks()) {
    lines += formatted("M0 %.1fH%.0f", top(mark), kSide);
    y_numbers += element("span", axis_text(y, mark, unit));
  }
  for (const double mark : x.marks())
    if (mark <= x.high * (1 + 1e-9))
      x_numbers += element(formatted("span style=\"left:%.2f%%\"", 100 * x.place(mark)),
                           axis_text(x, mark, x_unit));
  const char* unit_sign = unit == Unit::kPercent ? "%" : unit == Unit::kSeconds ? "s" : "";
  const std::string svg =
      element(formatted("svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=\"none\" role=\"img\" "
                        "tabindex=\"0\" data-unit=\"%s\" data-scale=\"%s\" ",
                        kSide, kSide, unit_sign, y.is_log ? "log" : "") +
                  "data-x-name=\"" + escaped(x_name) + "\" " +
                  (x_unit == Unit::kPercent ? "data-x-unit=\"%\" " : "") +
                  formatted("data-frame=\"%.9g %.9g %.9g %.9g\" aria-label=\"", x.low, x.high,
                            y.low, y.high) +
                  escaped(label) + "\"",
              "<path class=\"grid\" d=\"" + lines + "\"/>\n" + curves);
  const bool is_cut = highest > y.high * (1 + 1e-9);
  return element("div class=\"plot\"",
                 element("div class=\"ys\" aria-hidden=\"true\"", y_numbers) +
                     element("div class=\"area\"", svg + marks) +
                     element("div class=\"xs\" aria-hidden=\"true\"", x_numbers) +
                     element("div class=\"x-name\" aria-hidden=\"true\"", escaped(x_name))) +
         (is_cut ? element("p class=\"outside\"", "Values above " + axis_text(y, y.high, unit) +
                                                      " are outside the chart; the highest is " +
                                                      value_text(highest, unit) + ".")
                 : "");
}

std::string line_chart_html(const LineChart& chart) {
  if (std::ranges::all_of(chart.series, [](auto& series) { return series.points.empty(); }))
    return "";
  const ChartFrame frame = frame_of(chart);
  std::string lines;
  for (const bool background : {true, false})
    for (const Series& series : chart.series)
      if (series.is_background == background && !series.points.empty())
        lines += line_svg(series, frame);
  std::string mark;
  if (chart.kept_epoch != 0) {
    const double share = std::min(1.0, frame.x.place(chart.kept_epoch));
    mark = element(formatted("span class=\"mark%s\" style=\"left:%.2f%%\" aria-hidden=\"true\"",
                             share > 0.5 ? " before" : "", 100 * share),
                   "saved");
  }
  return element("figure class=\"chart\"",
                 element("figcaption", element("h3", escaped(chart.title)) + legend(chart)) +
                     frame.html(in_words(chart), lines, mark) +
                     folded("Values", value_table(chart))) +
         "\n";
}

}  // namespace kiln
