// Charts as SVG inside of HTML: for eyes, for a screen reader (a label in words and a table of the
// values) and for the pointer or the arrow keys (report.js shows the values).
#pragma once

#include <string>
#include <vector>

namespace kiln {

// From numbers to places in a chart.
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

// Charts as SVG inside of HTML: for eyes, for a screen reader (a label in words and a table of the
// values) and for the pointer or the arrow keys (report.js shows the values).
enum class Unit { kPlain, kPercent, kSeconds };

// "0.5123", "71.3 %", "4.2 s"; "NaN" and "∞" as they are.
std::string value_text(double value, Unit unit);

struct Series {
  std::string name;
  int color = 0;               // 0 to 7, of report.css
  bool is_background = false;  // thin, and not in the table
  bool holds = false;          // each value since the whole epoch before it, as a stair
  std::vector<Point> points;   // x in epochs, ascending; y may be NaN or infinite
};

struct LineChart {
  std::string title;
  Unit unit = Unit::kPlain;
  std::vector<Series> series;
  int kept_epoch = 0;  // is marked; 0: none
};

// A `<figure>`; empty where no series has points. Long series are thinned.
std::string line_chart_html(const LineChart& chart);

// Places all charts share, in units of the picture.
struct ChartFrame {
  Scale x, y;
  Unit unit = Unit::kPlain;

  double left(double value) const;
  double top(double value) const;
  // The grid and its numbers.
  std::string grid() const;
  // A whole `<svg>` around `content`; `label` is plain text.
  std::string svg(const std::string& label, const std::string& content) const;
};

}  // namespace kiln
