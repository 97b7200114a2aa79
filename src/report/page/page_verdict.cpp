// The top of a run's report: did it work, can it be trusted, and what to try next.
#include <cmath>

#include "base/text.h"
#include "report/page/html.h"
#include "report/page/page.h"
#include "report/page/tiles.h"
#include "report/record/run_summary.h"

namespace kiln {
namespace {

std::string accuracy_tiles(const RunSummary& summary) {
  const EpochRecord &best = *summary.best, &last = *summary.last;
  const double guessing = summary.largest_share;
  const auto name = [](const char* what, const EpochRecord& epoch) {
    return formatted("%s, epoch %d", what, epoch.epoch);
  };
  return accuracy_tile({"best-top1", name("Best top-1", best), best.valid.top1_accuracy(),
                        top1_interval(best.valid), guessing}) +
         accuracy_tile({"best-top5", name("Top-5 of that epoch", best), best.valid.top5_accuracy(),
                        top5_interval(best.valid)}) +
         accuracy_tile({"last-top1", name("Last top-1", last), last.valid.top1_accuracy(),
                        top1_interval(last.valid), guessing}) +
         accuracy_tile({"last-top5", name("Last top-5", last), last.valid.top5_accuracy(),
                        top5_interval(last.valid)});
}

// Tiles for the epoch whose model was kept, or the last epoch if none was. Empty for records of
// older versions.
std::string macro_tiles(const RunRecord& run, const RunSummary& summary) {
  const EpochRecord* kept = kept_epoch(run);
  const EpochRecord& epoch = kept != nullptr ? *kept : *summary.last;
  if (!epoch.macro) return "";
  const auto& [recall, f1] = *epoch.macro;
  return tile(formatted("Macro recall, epoch %d", epoch.epoch),
              figure("macro-recall", recall, percent(recall)),
              "unweighted mean over the classes that have validation images") +
         tile(formatted("Macro F1, epoch %d", epoch.epoch),
              figure("macro-f1", f1, formatted("%.3f", f1)),
              "mean over the classes that have validation images or were predicted");
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
    tiles = accuracy_tiles(summary) + macro_tiles(run, summary);
    tiles += tile("Speed",
                  figure("images-per-second", summary.images_per_second,
                         grouped(std::llround(summary.images_per_second)) + " images/s"),
                  "in training");
  }
  tiles += tile("Time", figure("seconds", summary.seconds, duration_text(summary.seconds)),
                figure("epochs", static_cast<double>(run.epochs.size()),
                       formatted("%zu of %d epochs", run.epochs.size(), run.start.num_epochs)) +
                    "; " + saved_text(run.end));
  const auto& automatic = run.end.automatic;
  return section(
      "verdict", "Did it work?",
      verdict_line(answer) +
          (automatic ? element("p id=\"kept\"", escaped(automatic->reason)) : std::string()) +
          element("dl class=\"tiles\"", "\n" + tiles));
}

std::string findings_html(const RunRecord& run) {
  return section("trust", "Can it be trusted?", findings_list(findings(run)));
}

std::string next_steps_html(const RunRecord& run) {
  std::string items;
  for (const std::string& step : next_steps(run)) items += element("li", prose(step)) + "\n";
  return items.empty() ? "" : section("next", "What to try next", element("ol", "\n" + items));
}

}  // namespace kiln
