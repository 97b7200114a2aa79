// The top of a page: the verdict, the main figures as tiles, and the findings.
#pragma once

#include <string>
#include <vector>

#include "record/run_summary.h"
#include "report/page/page.h"

namespace kiln {

// `name` is plain text.
std::string tile(const std::string& name, const std::string& figure_html, const std::string& more);

struct AccuracyFigure {
  std::string id, name;  // `id` as in figure(); `name` is plain text
  double value = 0;
  Interval interval;    // 95 % confidence
  double guessing = 0;  // accuracy of always predicting the largest class; 0: not shown
};
// Draws the interval as a bar.
std::string accuracy_tile(const AccuracyFigure& accuracy);

std::string verdict_line(const Finding& verdict);

// A `<ul>`.
std::string findings_list(const std::vector<Finding>& findings);

}  // namespace kiln
