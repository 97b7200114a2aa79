// The top of a page: the verdict, the main figures as tiles, and the findings.
#pragma once

#include <string>
#include <vector>

#include "report/page/page.h"
#include "report/record/run_summary.h"

namespace kiln {

// `name` is plain text.
std::string tile(const std::string& name, const std::string& figure_html, const std::string& more);

struct AccuracyFigure {
  std::string id, name;  // as figure()'s; plain text
  double value = 0;
  Interval interval;    // 95 %
  double guessing = 0;  // what naming the largest class gives; 0: not shown
};
// With its interval as a bar.
std::string accuracy_tile(const AccuracyFigure& accuracy);

std::string verdict_line(const Finding& verdict);

// A `<ul>`.
std::string findings_list(const std::vector<Finding>& findings);

}  // namespace kiln
