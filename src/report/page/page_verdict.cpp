// The top of the report: did it work, and can it be trusted.
#include <cmath>

#include "base/text.h"
#include "report/page/html.h"
#include "report/page/page.h"
#include "report/record/run_summary.h"

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

std::string tile(const std::string& name, const std::string& figure_html, const std::string& more) {
  return element("div class=\"tile\"", element("dt", escaped(name)) +
                                           element("dd class=\"figure\"", figure_html) +
                                           element("dd class=\"more\"", more)) +
         "\n";
}

// Value, confidence interval and guessing baseline, on a scale from 0 to 1.
std::string interval_bar(double value, const Interval& interval, double guessing) {
  return element(
      formatted("span class=\"interval\" aria-hidden=\"true\" style=\"--value:%.2f%%;--low:%.2f%%;"
                "--high:%.2f%%;--guess:%.2f%%\"",
                100 * value, 100 * interval.low, 100 * interval.high, 100 * guessing),
      guessing > 0 ? "<i></i><u></u><b></b>" : "<i></i><b></b>");
}

struct Accuracy {
  std::string id, name;
  double value = 0;
  Interval interval;
  double guessing = 0;
  int epoch = 0;
};

std::string accuracy_tile(const Accuracy& accuracy) {
  return tile(
      accuracy.name + formatted(", epoch %d", accuracy.epoch),
      figure(accuracy.id, accuracy.value, percent(accuracy.value)),
      interval_bar(accuracy.value, accuracy.interval, accuracy.guessing) + "95 % interval: " +
          figure(accuracy.id + "-low", accuracy.interval.low, percent(accuracy.interval.low)) +
          " to " +
          figure(accuracy.id + "-high", accuracy.interval.high, percent(accuracy.interval.high)));
}

std::string accuracy_tiles(const RunSummary& summary) {
  const EpochRecord &best = *summary.best, &last = *summary.last;
  const double guessing = summary.largest_share;
  return accuracy_tile({"best-top1", "Best top-1", best.valid.top1_accuracy(),
                        top1_interval(best.valid), guessing, best.epoch}) +
         accuracy_tile({"best-top5", "Top-5 of that epoch", best.valid.top5_accuracy(),
                        top5_interval(best.valid), 0, best.epoch}) +
         accuracy_tile({"last-top1", "Last top-1", last.valid.top1_accuracy(),
                        top1_interval(last.valid), guessing, last.epoch}) +
         accuracy_tile({"last-top5", "Last top-5", last.valid.top5_accuracy(),
                        top5_interval(last.valid), 0, last.epoch});
}

std::string saved_text(const RunEnd& end) {
  if (end.saved_epoch == 0)
    return end.status == RunStatus::kRunning ? "no model written yet" : "no model was saved";
  return formatted("epoch %d was saved", end.saved_epoch);
}

}  // namespace

std::string headline_html(const RunRecord& run) {
  const RunStart& start = run.start;
  std::string facts = utc_text(start.time);
  if (!start.device.empty()) facts += " · " + start.device;
  if (start.num_ranks > 1) facts += formatted(" · %d ranks", start.num_ranks);
  if (start.num_parameters > 0) facts += " · " + grouped(start.num_parameters) + " parameters";
  if (const std::string text = interruptions_text(run); !text.empty())
    facts += " · interrupted " + text;
  const bool is_fine = run.end.status == RunStatus::kFinished;
  return element("header", element("p class=\"brand\"", "Kiln") +
                               element("h1", element("bdi", escaped(run_title(start)))) +
                               element(is_fine ? "p class=\"status\" id=\"status\""
                                               : "p class=\"status warning\" id=\"status\"",
                                       status_text(run.end)) +
                               element("p class=\"facts\"", escaped(facts))) +
         "\n";
}

std::string verdict_html(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  const Finding answer = verdict(run);
  std::string tiles;
  if (summary.best != nullptr) {
    tiles = accuracy_tiles(summary);
    tiles += tile("Speed",
                  figure("images-per-second", summary.images_per_second,
                         grouped(std::llround(summary.images_per_second)) + " images/s"),
                  "in training");
  }
  tiles += tile("Time", figure("seconds", summary.seconds, duration_text(summary.seconds)),
                figure("epochs", static_cast<double>(run.epochs.size()),
                       formatted("%zu of %d epochs", run.epochs.size(), run.start.num_epochs)) +
                    "; " + saved_text(run.end));
  return section(
      "verdict", "Did it work?",
      element("p class=\"verdict " + class_of(answer.judged) + "\"", prose(answer.text)) + "\n" +
          element("dl class=\"tiles\"", "\n" + tiles));
}

std::string findings_html(const RunRecord& run) {
  std::string items;
  for (const Finding& finding : findings(run))
    items += element("li class=\"" + class_of(finding.judged) + "\"",
                     icon(finding.judged) + element("span", prose(shortened(finding.text, 2000)))) +
             "\n";
  return section("trust", "Can it be trusted?", element("ul class=\"findings\"", "\n" + items));
}

std::string next_steps_html(const RunRecord& run) {
  std::string items;
  for (const std::string& step : next_steps(run)) items += element("li", prose(step)) + "\n";
  return items.empty() ? "" : section("next", "What to try next", element("ol", "\n" + items));
}

}  // namespace kiln
