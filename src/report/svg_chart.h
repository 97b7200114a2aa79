// Charts as SVG inside of HTML: for eyes, for a screen reader (a label in words and a table of the
// values) and for the pointer or the arrow keys (report.js shows the values).
#pragma once

#include <string>
#include <vector>

#include "report/chart_scale.h"

namespace kiln {

enum class Unit { kPlain, kPercent, kSeconds };

// "0.5123", "71.3 %", "4.2 s"; "NaN" and "∞" as they are.
std::string value_text(double value, Unit unit);

struct Series {
  std::string name;
  int colour = 0;              // 0 to 7, of report.css
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
