// The top of a run's report: did it work, can it be trusted, and what to try next.
#include <cmath>

#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/html.h"
#include "report/page/page.h"
#include "report/page/tiles.h"

namespace kiln {
namespace {

// Figures of the saved model. The best epoch follows if that is another one.
std::string accuracy_tiles(const RunRecord& run, const RunSummary& summary) {
  const EpochRecord &kept = *summary.kept, &best = *summary.best;
  const auto name = [](const char* what, const EpochRecord& epoch) {
    return formatted("%s, epoch %d", what, epoch.epoch);
  };
  std::string tiles = accuracy_tile({"top1", name("Top-1", kept), kept.valid.top1_accuracy(),
                                     top1_interval(kept.valid), summary.largest_share});
  if (has_top5(run.start.data))
    tiles += accuracy_tile(
        {"top5", name("Top-5", kept), kept.valid.top5_accuracy(), top5_interval(kept.valid)});
  if (kept.macro) {  // empty for records of older versions
    const auto& [recall, f1] = *kept.macro;
    tiles += tile(name("Macro recall", kept), figure("macro-recall", recall, percent(recall)),
                  "unweighted mean over the classes that have validation images") +
             tile(name("Macro F1", kept), figure("macro-f1", f1, formatted("%.3f", f1)),
                  "mean over the classes that have validation images or were predicted");
  }
  if (best.epoch != kept.epoch && best.valid.top1_accuracy() > kept.valid.top1_accuracy())
    tiles +=
        tile(name("Best top-1", best),
             figure("best-top1", best.valid.top1_accuracy(), percent(best.valid.top1_accuracy())),
             "another epoch than the one that was saved");
  return tiles;
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
  if (summary.kept != nullptr) {
    tiles = accuracy_tiles(run, summary);
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
