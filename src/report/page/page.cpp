#include "report/page/page.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "record/run_file.h"
#include "report/page/chart.h"
#include "report/page/html.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

Series by_step(const RunRecord& run, int color, double (*value)(const StepRecord&),
               int first_step = 1) {
  // Drawn in the background, except before the end of the second epoch, when it is all there is.
  Series series{"steps", color, run.epochs.size() > 1, false, {}};
  for (const StepRecord& step : run.steps) {
    if (step.step < first_step) continue;
    const double share = step.num_steps > 0 ? static_cast<double>(step.step) / step.num_steps : 1;
    series.points.push_back({step.epoch - 1 + share, value(step)});
  }
  return series;
}

std::string curves_html(const RunRecord& run) {
  // Of a single epoch, only its steps make a curve.
  constexpr std::size_t kFewestSteps = 20;
  const bool has_epochs = run.epochs.size() > 1;
  if (!has_epochs && run.steps.size() < kFewestSteps) return "";
  const int kept = run.end.saved_epoch;
  const LineChart loss{
      "Loss",
      Unit::kPlain,
      {by_epoch(run, "training", 1, [](auto& epoch) { return epoch.train.loss(); }),
       by_epoch(run, "validation", 0, [](auto& epoch) { return epoch.valid.loss(); }),
       by_step(run, 1, [](auto& step) { return step.batch.loss(); })},
      kept};
  LineChart accuracy{
      capitalized(run.start.data.words.right) + " accuracy", Unit::kPercent, {}, kept};
  if (has_epochs)
    accuracy.series = {
        by_epoch(run, "training", 1, [](auto& epoch) { return epoch.train.top1_accuracy(); }),
        by_epoch(run, "validation", 0, [](auto& epoch) { return epoch.valid.top1_accuracy(); })};
  if (has_epochs && has_top5(run.start.data))
    accuracy.series.push_back(by_epoch(run, "validation top-5", 4,
                                       [](auto& epoch) { return epoch.valid.top5_accuracy(); }));
  if (has_epochs && !run.epochs.front().figures.empty())  // the task's own
    accuracy.series.push_back(
        by_epoch(run, "validation " + short_title(run.epochs.front().figures.front()), 4,
                 [](auto& epoch) { return figures_of(epoch).front().value; }));
  LineChart rate{"Learning rate",
                 Unit::kPlain,
                 {by_epoch(run, "epochs", 2, [](auto& epoch) { return epoch.learning_rate; }),
                  by_step(run, 2, [](auto& step) { return step.learning_rate; })}};
  for (Series& series : rate.series) series.holds = true;
  // The designer's rate counts a batch when its forward pass ends, so the time of the first step of
  // an epoch does not include a backward pass.
  constexpr int kFirstSpeed = 2;
  const LineChart speed{
      "Images per second",
      Unit::kPlain,
      {by_epoch(run, "epochs", 3, [](auto& epoch) { return epoch.train_images_per_second; }),
       by_step(
           run, 3, [](auto& step) { return step.batch_images_per_second; }, kFirstSpeed)}};
  return section(
      "curves", "Training curves",
      element("div class=\"charts\"", "\n" + line_chart_html(loss) + line_chart_html(accuracy) +
                                          line_chart_html(rate) + line_chart_html(speed)));
}

std::string headline_html(const RunRecord& run) {
  const RunStart& start = run.start;
  std::string facts = utc_text(start.time);
  if (!start.device.empty()) facts += " · " + start.device;
  if (start.num_ranks > 1) facts += formatted(" · %d ranks", start.num_ranks);
  if (start.num_parameters > 0) facts += " · " + grouped(start.num_parameters) + " parameters";
  if (const std::string text = interruptions_text(run); !text.empty())
    facts += " · resumed " + text;
  std::string status = "p class=\"status warning\" id=\"status\"";
  if (run.end.status == RunStatus::kFinished) status = "p class=\"status\" id=\"status\"";
  if (run.end.status == RunStatus::kRunning) {
    const double last = last_time(run);
    facts += " · news of " + utc_text(last);
    status += formatted(" data-until=\"%.0f\"", last + plausible_silence(run));
  }
  return header_html(element("bdi", escaped(run_title(start))),
                     element(status, status_text(run.end)) + facts_html(facts)) +
         "\n";
}

class HtmlReport : public RunSink {
 public:
  HtmlReport(fs::path path, const RunRecord& run) : path_(std::move(path)), run_(run) {}
  std::string_view name() const override { return kReportName; }
  void epoch(const EpochRecord& /*epoch*/, const ValidationDetails* /*details*/) override {
    has_epoch_ = true;
    write_in_time();
  }
  void step(const StepRecord& /*step*/) override {
    if (has_epoch_) write_in_time();
  }
  void resume(const RunRecord& so_far) override {
    if (!so_far.epochs.empty()) epoch(so_far.epochs.back(), nullptr);
  }
  void end(const RunRecord& run) override {
    const fs::path record = path_.parent_path() / kRunFileName;
    if (has_epoch_ || !is_there(next_record(record)))
      write_file_durably(path_, report_html(run, path_, path_.parent_path()));
  }

 private:
  void write_in_time() {
    constexpr double kLeast = 30, kShare = 0.02;  // seconds; of the time that writing may take
    if (since_.seconds() < pause_) return;
    pause_ = kLeast;
    since_.lap();
    write_file_durably(path_,
                       report_html(run_, path_, path_.parent_path(), static_cast<int>(kLeast)));
    pause_ = std::max(kLeast, since_.lap() / kShare);
  }

  fs::path path_;
  const RunRecord& run_;
  bool has_epoch_ = false;
  Stopwatch since_;   // the last time
  double pause_ = 0;  // seconds until the next one
};

std::string first_batch_html(const fs::path& logs) {
  constexpr std::size_t kMostBytes = 2'000'000;
  const fs::path file = logs / kFirstBatchName;
  if (logs.empty() || !is_file(file)) return "";
  const std::string jpeg = first_bytes(file, kMostBytes + 1);
  if (jpeg.size() > kMostBytes) return "";
  return section("first-batch", "What the network sees",
                 element("p",
                         "The first images of training, after augmentation and mixing, with "
                         "their labels and shares.") +
                     "<img class=\"sheet\" alt=\"The first two batches\" "
                     "src=\"data:image/jpeg;base64," +
                     base64(jpeg) + "\">");
}

// How a finding is shown: an icon distinguished by color and shape, with a word for screen readers.
struct Look {
  const char *style, *sign, *word;
};
constexpr Look kLooks[] = {
    {"good", "✓", "Good: "}, {"note", "i", "Note: "}, {"warning", "!", "Warning: "}};

// Figures of the saved model. The best epoch follows if that is another one.
std::string accuracy_tiles(const RunRecord& run, const RunSummary& summary) {
  const EpochRecord &kept = *summary.kept, &best = *summary.best;
  const auto name = [](const char* what, const EpochRecord& epoch) {
    return formatted("%s, epoch %d", what, epoch.epoch);
  };
  std::string tiles = figure_tiles(kept.figures, name("", kept));
  tiles += accuracy_tile("top1", name(capitalized(counted_name(kept)).c_str(), kept),
                         kept.valid.top1_accuracy(), summary.top1_interval, summary.largest_share);
  if (has_top5(run.start.data))
    tiles += accuracy_tile("top5", name("Top-5", kept), kept.valid.top5_accuracy(),
                           summary.top5_interval);
  if (kept.macro) tiles += macro_tiles(name("", kept), kept.macro->recall, kept.macro->f1);
  if (best.epoch != kept.epoch && best.valid.top1_accuracy() > kept.valid.top1_accuracy())
    tiles += tile(name(("Best " + counted_name(best)).c_str(), best),
                  percent_figure("best-top1", best.valid.top1_accuracy()),
                  "another epoch than the one that was saved");
  return tiles;
}

// The thresholds for target accuracies. Targets with the same threshold share a row; the lowest one
// that has no threshold is stated below.
std::string answers_html(const Calibration& calibration) {
  std::vector<Cells> rows;
  std::string notes;
  double first = 0, threshold = -1;  // of the last row
  for (const double wanted : {0.9, 0.95, 0.98, 0.99, 0.999}) {
    const std::optional<AnswerRate> rate = answer_rate_for(calibration, wanted);
    if (!rate) {
      notes = formatted("These images do not show an accuracy of %g %% at any threshold.",
                        100 * wanted);
      break;
    }
    const Interval interval = rate->interval();
    if (rate->threshold == threshold) {
      rows.back()[0] = formatted("%g to %g %%", 100 * first, 100 * wanted);
      continue;
    }
    first = wanted;
    threshold = rate->threshold;
    rows.push_back({formatted("%g %%", 100 * wanted), formatted("%.6g", threshold),
                    percent(rate->share()), percent(rate->accuracy()),
                    percent(interval.low) + " to " + percent(interval.high)});
  }
  return (rows.empty()
              ? ""
              : table("Answers by target accuracy",
                      {"target", "confidence from", "answered", "accuracy", "95 % interval"},
                      rows)) +
         (notes.empty() ? "" : element("p", notes));
}

// What the page's script makes a slider of: the thresholds, and what is answered from each on.
std::string thresholds_html(const std::vector<AnswerBin>& answers) {
  std::string bins;
  for (const AnswerBin& bin : answers)
    bins += formatted("%.7g %lld %lld,", bin.from, static_cast<long long>(bin.images),
                      static_cast<long long>(bin.right));
  if (!bins.empty()) bins.pop_back();
  return "<p class=\"thresholds\" hidden data-bins=\"" + bins + "\"></p>";
}

// The accuracy by the share of images answered, the most confident ones first.
std::string trade_chart(const std::vector<AnswerBin>& answers) {
  LineChart chart{.title = "Accuracy by share answered",
                  .unit = Unit::kPercent,
                  .series = {{"right", 0, false, false, {}}},
                  .x_name = "answered",
                  .x_unit = Unit::kPercent};
  const std::int64_t images = answer_rate(answers, 0).images;
  std::int64_t answered = 0, right = 0;
  for (auto bin = answers.rbegin(); bin != answers.rend(); ++bin) {
    answered += bin->images;
    right += bin->right;
    chart.series[0].points.push_back({share_of(answered, images), share_of(right, answered)});
  }
  return element("div class=\"charts\"", line_chart_html(chart));
}

std::string label_html(const DataRecord& data, int label) {
  return name_html(class_name(data, label));
}

std::string share_html(double share) {
  if (!std::isfinite(share)) return "–";
  return element(formatted("span class=\"bar\" style=\"--value:%.1f%%\"", 100 * share),
                 percent(share));
}

std::string matrix_table(const DataRecord& data, const CondensedMatrix& small) {
  std::vector<std::string> names;
  for (const int label : small.labels) names.push_back(label_html(data, label));
  if (small.num_others > 0) names.push_back(formatted("%d others", small.num_others));
  std::string head = "<th class=\"text corner\">true ↓ predicted →</th>";
  for (const std::string& name : names) head += element("th scope=\"col\"", element("span", name));
  std::string body;
  const ConfusionMatrix& counts = small.counts;
  for (int truth = 0; truth < counts.num_classes; ++truth) {
    std::int64_t images = 0;
    for (int guess = 0; guess < counts.num_classes; ++guess) images += counts.at(truth, guess);
    std::string cells = element("th scope=\"row\" class=\"text\"", names[truth]);
    for (int guess = 0; guess < counts.num_classes; ++guess) {
      const std::int64_t count = counts.at(truth, guess);
      if (count == 0) {
        cells += "<td></td>";
        continue;
      }
      // Colored by its share of the row's images.
      const int level = std::clamp(static_cast<int>(std::ceil(9 * share_of(count, images))), 1, 9);
      cells += element(formatted("td class=\"%s%d\"", truth == guess ? "right" : "wrong", level),
                       std::to_string(count));
    }
    body += element("tr", cells) + "\n";
  }
  return element(
      "div class=\"scrolls\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"",
      element(counts.num_classes > 15 ? "table class=\"matrix dense\"" : "table class=\"matrix\"",
              "<caption>Images by true class and predicted class</caption>" +
                  element("thead", element("tr", head)) + element("tbody", body)));
}

std::string pairs_table(const DataRecord& data, const ConfusionMatrix& matrix) {
  std::vector<Cells> rows;
  for (const Confusion& pair : worst_confusions(matrix, 12))
    rows.push_back(
        {label_html(data, pair.truth), label_html(data, pair.guess), grouped(pair.images)});
  if (rows.empty()) return "";
  return table("Confused most often",
               {text_column("true class"), text_column("predicted"), "images"}, rows);
}

}  // namespace

Series by_epoch(const RunRecord& run, std::string name, int color,
                double (*value)(const EpochRecord&)) {
  Series series{std::move(name), color, false, false, {}};
  for (const EpochRecord& epoch : run.epochs)
    series.points.push_back({static_cast<double>(epoch.epoch), value(epoch)});
  return series;
}

std::string tile(const std::string& name, const std::string& figure_html, const std::string& more) {
  return element("div class=\"tile\"", element("dt", escaped(name)) +
                                           element("dd class=\"figure\"", figure_html) +
                                           element("dd class=\"more\"", more)) +
         "\n";
}

std::string count_tile(const std::string& name, const std::string& id, std::int64_t count,
                       const std::string& more) {
  return tile(name, figure(id, static_cast<double>(count), grouped(count)), more);
}

std::string accuracy_tile(const std::string& id, const std::string& name, double value,
                          const Interval& interval, double guessing) {
  // Value, confidence interval and guessing baseline, on a scale from 0 to 1.
  const std::string bar = element(
      formatted("span class=\"interval\" aria-hidden=\"true\" style=\"--value:%.2f%%;--low:%.2f%%;"
                "--high:%.2f%%;--guess:%.2f%%\"",
                100 * value, 100 * interval.low, 100 * interval.high, 100 * guessing),
      guessing > 0 ? "<i></i><u></u><b></b>" : "<i></i><b></b>");
  return tile(name, percent_figure(id, value),
              bar + "95 % interval: " + percent_figure(id + "-low", interval.low) + " to " +
                  percent_figure(id + "-high", interval.high));
}

std::string verdict_section(const std::string& heading, const Finding& verdict,
                            const std::string& tiles, const std::string& more) {
  const char* style = kLooks[static_cast<int>(verdict.judged)].style;
  return section("verdict", heading,
                 element(formatted("p class=\"verdict %s\"", style), prose(verdict.text)) + "\n" +
                     more + element("dl class=\"tiles\"", tiles));
}

std::string findings_list(const std::vector<Finding>& findings) {
  std::string items;
  for (const Finding& finding : findings) {
    const Look& look = kLooks[static_cast<int>(finding.judged)];
    items += element(formatted("li class=\"%s\"", look.style),
                     element("span class=\"icon\" aria-hidden=\"true\"", look.sign) +
                         element("span class=\"unseen\"", look.word) +
                         element("span", prose(shortened(finding.text, 2000)))) +
             "\n";
  }
  return element("ul class=\"findings\"", "\n" + items);
}

std::string verdict_html(const RunRecord& run) {
  const RunSummary summary = summary_of(run);
  std::string tiles;
  if (summary.kept != nullptr) {
    tiles = accuracy_tiles(run, summary);
    tiles += tile("Speed",
                  figure("images-per-second", summary.images_per_second,
                         plural(std::llround(summary.images_per_second), "image/s", "images/s")),
                  "in training");
  }
  const std::string saved = run.end.saved_epoch > 0
                                ? formatted("epoch %d was saved", run.end.saved_epoch)
                            : run.end.status == RunStatus::kRunning ? "no model written yet"
                                                                    : "no model was saved";
  tiles += tile("Time", figure("seconds", summary.seconds, duration_text(summary.seconds)),
                figure("epochs", static_cast<double>(run.epochs.size()),
                       formatted("%zu of ", run.epochs.size()) +
                           plural(run.start.num_epochs, "epoch", "epochs")) +
                    "; " + saved);
  const auto& automatic = run.end.automatic;
  return verdict_section(
      "Did it work?", verdict(run), "\n" + tiles,
      automatic ? element("p id=\"kept\"", escaped(automatic->reason)) : std::string());
}

std::string confidence_html(const Calibration& calibration, bool chosen_here) {
  if (calibration.answers.empty()) return "";
  const char* heading = "How many images can it answer?";
  if (is_at_limit(calibration.temperature))
    return section(
        "confidence", heading,
        element("p", formatted("Its confidence cannot be calibrated: the temperature that "
                               "fits best is outside of %g to %g. Do not rely on it.",
                               kLowestTemperature, kHighestTemperature)));
  return section(
      "confidence", heading,
      element("p",
              std::string(
                  "If the model answers only above a confidence threshold, it is more accurate. "
                  "Confidence is the softmax of the logits divided by the temperature ") +
                  figure("temperature", calibration.temperature,
                         formatted("%.3f", calibration.temperature)) +
                  (!chosen_here              ? "."
                   : calibration.out_of_fold ? ", which was fitted on these training images, "
                                               "each judged by a model that had not seen it."
                                             : ", which was fitted on these validation images.") +
                  " A threshold is one at which even the lower end of the 95 % interval reaches "
                  "the target.") +
          trade_chart(calibration.answers) + thresholds_html(calibration.answers) +
          answers_html(calibration));
}

std::string classes_html(const DataRecord& data, const ValidationDetails& details,
                         const std::vector<ConfidenceBins>& bins) {
  constexpr std::size_t kMostBins = 500;  // classes, so that the page stays small
  std::vector<Cells> rows;
  const std::vector<ClassScore> scores = class_scores(details.confusion);
  constexpr std::size_t kMaxRows = 1000;
  const bool has_train = !data.train_counts.empty();
  for (const ClassScore& score : scores) {
    if (rows.size() == kMaxRows) break;
    const int guess = most_often_taken_for(details.confusion, score.label);
    rows.push_back({bins.empty() || bins.size() > kMostBins
                        ? label_html(data, score.label)
                        : binned_html(class_name(data, score.label), bins[score.label]),
                    share_html(score.recall()), share_html(score.precision()),
                    grouped(score.images), grouped(score.hits), grouped(score.images - score.hits),
                    grouped(score.guesses - score.hits),
                    guess < 0 ? ""
                              : label_html(data, guess) + " " +
                                    element("span class=\"quiet\"",
                                            grouped(details.confusion.at(score.label, guess)))});
    if (has_train) rows.back().push_back(grouped(count_of(data.train_counts, score.label)));
  }
  if (rows.empty()) return "";
  std::vector<Column> columns = {text_column("class"),
                                 "recall",
                                 "precision",
                                 "images",
                                 "right",
                                 "missed",
                                 "false",
                                 text_column("most confused with")};
  if (has_train) columns.emplace_back("training images");
  std::string lead =
      (details.epoch > 0 ? formatted("Results of the model of epoch %d, worst", details.epoch)
                         : std::string("Worst")) +
      " class first.";
  if (rows.size() < scores.size())
    lead += formatted(" Showing %zu of %zu classes.", rows.size(), scores.size());
  return section("classes", "Results by class",
                 element("p", lead) + table("Classes, worst recall first", columns, rows));
}

std::string confusion_html(const DataRecord& data, const ConfusionMatrix& matrix) {
  if (matrix.empty()) return "";
  // With fewer images, the cells of a large matrix are nearly all empty.
  constexpr std::int64_t kFewestPerClass = 3;
  std::int64_t images = 0;
  for (const ClassScore& score : class_scores(matrix)) images += score.images;
  if (matrix.num_classes > 15 && images < kFewestPerClass * matrix.num_classes)
    return section(
        "confusion", "Confused classes",
        element("p", "With so few images of each class, a matrix would be nearly empty.") +
            pairs_table(data, matrix));
  const CondensedMatrix small = condensed(matrix, 40);
  std::string lead = "Rows are true classes, columns are predicted classes.";
  if (small.num_others > 0)
    lead += formatted(
        " Showing the %zu classes with the most errors; the last row and column combine the other "
        "%d.",
        small.labels.size(), small.num_others);
  return section(
      "confusion", "Confusion matrix",
      element("p", lead) +
          element("div class=\"beside\"", matrix_table(data, small) + pairs_table(data, matrix)));
}

std::string report_html(const RunRecord& run, const fs::path& page, const fs::path& logs,
                        int reload_seconds) {
  const DataRecord& data = run.start.data;
  const ValidationDetails& details = run.details;
  std::string steps;
  for (const std::string& step : next_steps(run)) steps += element("li", prose(step)) + "\n";
  if (!steps.empty()) steps = element("ol", "\n" + steps);
  const std::string main =
      verdict_html(run) + section("trust", "Can it be trusted?", findings_list(findings(run))) +
      section("next", "What to try next", steps) + curves_html(run) + time_html(run) +
      interruptions_html(run) + confidence_html(details.calibration, /*chosen_here=*/true) +
      classes_html(data, details) + confusion_html(data, details.confusion) +
      results_html(data, details) + first_batch_html(logs) + warnings_html(run) + data_html(run) +
      settings_html(run);
  return page_html(run_title(run.start), headline_html(run), main,
                   address_of(data.valid_path, page), reload_seconds);
}

std::unique_ptr<RunSink> make_html_report(const fs::path& path, const RunRecord& run) {
  return std::make_unique<HtmlReport>(path, run);
}

}  // namespace kiln
