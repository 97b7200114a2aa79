#include "report/page/tiles.h"

#include "base/text.h"
#include "report/page/html.h"

namespace kiln {
namespace {

std::string class_of(Judged judged) {
  if (judged == Judged::kGood) return "good";
  return judged == Judged::kNote ? "note" : "warning";
}

// An icon distinguished by color and shape, with a word for screen readers.
std::string icon(Judged judged) {
  const char* sign = judged == Judged::kGood ? "✓" : judged == Judged::kNote ? "i" : "!";
  const char* word = judged == Judged::kGood   ? "Good: "
                     : judged == Judged::kNote ? "Note: "
                                               : "Warning: ";
  return element("span class=\"icon\" aria-hidden=\"true\"", sign) +
         element("span class=\"unseen\"", word);
}

// Value, confidence interval and guessing baseline, on a scale from 0 to 1.
std::string interval_bar(double value, const Interval& interval, double guessing) {
  return element(
      formatted("span class=\"interval\" aria-hidden=\"true\" style=\"--value:%.2f%%;--low:%.2f%%;"
                "--high:%.2f%%;--guess:%.2f%%\"",
                100 * value, 100 * interval.low, 100 * interval.high, 100 * guessing),
      guessing > 0 ? "<i></i><u></u><b></b>" : "<i></i><b></b>");
}

}  // namespace

std::string tile(const std::string& name, const std::string& figure_html, const std::string& more) {
  return element("div class=\"tile\"", element("dt", escaped(name)) +
                                           element("dd class=\"figure\"", figure_html) +
                                           element("dd class=\"more\"", more)) +
         "\n";
}

std::string accuracy_tile(const AccuracyFigure& accuracy) {
  return tile(
      accuracy.name, figure(accuracy.id, accuracy.value, percent(accuracy.value)),
      interval_bar(accuracy.value, accuracy.interval, accuracy.guessing) + "95 % interval: " +
          figure(accuracy.id + "-low", accuracy.interval.low, percent(accuracy.interval.low)) +
          " to " +
          figure(accuracy.id + "-high", accuracy.interval.high, percent(accuracy.interval.high)));
}

std::string verdict_line(const Finding& verdict) {
  return element("p class=\"verdict " + class_of(verdict.judged) + "\"", prose(verdict.text)) +
         "\n";
}

std::string findings_list(const std::vector<Finding>& findings) {
  std::string items;
  for (const Finding& finding : findings)
    items += element("li class=\"" + class_of(finding.judged) + "\"",
                     icon(finding.judged) + element("span", prose(shortened(finding.text, 2000)))) +
             "\n";
  return element("ul class=\"findings\"", "\n" + items);
}

}  // namespace kiln
