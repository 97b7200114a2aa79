// Charts as wide as the page gives them: curves as inline SVG, stretched, and labels as HTML, which
// keep their size. With a text label and a table of values for screen readers. Hovering or pressing
// arrow keys shows values (report.js).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace kiln {

struct Point {
  double x = 0, y = 0;  // in data units
};

// Reduces `points` to about `most`, in order, so that curves keep their peaks: keeps the minimum,
// the maximum and one non-finite point of each interval, and the first and last point of all.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

// Maps values to positions on one axis, between round numbers.
struct Scale {
  double low = 0, high = 1, step = 1;  // `step`: between tick marks
  bool is_log = false;                 // tick marks are powers of ten; `low` and `high` are two

  std::vector<double> marks() const;
  double place(double value) const;           // 0 at `low`, 1 at `high`
  std::string mark_text(double value) const;  // with decimals that distinguish the tick marks
};

// A scale from `low` to `high` with about `most` tick marks, spaced by 1, 2 or 5 times a power of
// ten but at least by `smallest_step`.
Scale round_scale(double low, double high, int most, double smallest_step = 0);

enum class Unit { kPlain, kPercent, kSeconds };

// A scale that covers the finite values, and 0 if it is close; shares end at 100 %. 0 to 1 if there
// are none. If it `may_be_log`, it is for plain positive values over more than two powers of ten.
Scale value_scale(const std::vector<double>& values, Unit unit = Unit::kPlain,
                  bool may_be_log = false);

// The highest value to show of `values`: the highest of all, unless a tenth of them at most are so
// high that they would flatten the rest.
double highest_shown(std::vector<double> values);

std::string value_text(double value, Unit unit);  // "0.5123", "71.3 %", "4.2 s", "∞"

struct Series {
  std::string name;
  int color = 0;               // 0 to 7, of report.css
  bool is_background = false;  // thin, and not in the table
  bool holds = false;          // each value covers x since the preceding point, drawn as a step
  std::vector<Point> points;   // x ascending, from 0 on; y may be NaN or infinite
};

struct LineChart {
  std::string title;
  Unit unit = Unit::kPlain;
  std::vector<Series> series;
  int kept_epoch = 0;  // marked in the chart; 0: none
  std::string x_name = "epoch";
  Unit x_unit = Unit::kPlain;
};

// A `<figure>`; empty if no series has points. Long series are thinned.
std::string line_chart_html(const LineChart& chart);

// Layout shared by all charts. Curves are drawn in a square of kSide units.
struct ChartFrame {
  static constexpr double kSide = 1000;

  Scale x, y;
  Unit unit = Unit::kPlain;
  std::string x_name = "epoch";
  Unit x_unit = Unit::kPlain;
  double highest = 0;  // of all values; stated if the chart ends below it

  // A frame from 0 to `last_x` for `values`.
  static ChartFrame of(double last_x, double smallest_x_step, const std::vector<double>& values,
                       Unit unit = Unit::kPlain, bool may_be_log = false);

  double left(double value) const { return kSide * x.place(value); }
  double top(double value) const { return kSide * (1 - std::clamp(y.place(value), -1.0, 3.0)); }
  // The chart: the grid, `curves`, which are SVG, `marks`, which are HTML above them, and the
  // numbers of the axes; `label` is plain text.
  std::string html(const std::string& label, const std::string& curves,
                   const std::string& marks = "") const;
};

}  // namespace kiln
