// The pages of `kiln evaluate`.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/names.h"
#include "base/text.h"
#include "report/page/chart.h"
#include "report/page/gallery.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr double kSignificant = 0.05, kPoorlyCalibrated = 0.05;

Finding verdict_of(const EvaluatedModel& model) {
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  const double guessing = majority_share(figures), right = totals.top1_accuracy();
  const std::string lead =
      "It classifies " + percent(right) + " of " + plural(totals.count, "image", "images") +
      " correctly; always predicting the largest class would get " + percent(guessing) + ".";
  const bool has_seen = model.seen && model.seen->training + model.seen->validation > 0;
  if (is_above_chance(totals.top1, totals.count, guessing))
    return {has_seen || !model.doubts.empty() ? Judged::kNote : Judged::kGood, lead};
  return {Judged::kWarning, lead + " That is not clearly better than guessing."};
}

std::string tiles_of(const EvaluatedModel& model) {
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  const double error = expected_calibration_error(figures.calibration());
  return accuracy_tile("top1", "Top-1", totals.top1_accuracy(), top1_interval(totals),
                       majority_share(figures)) +
         (figures.has_top_k() ? accuracy_tile("top-k", formatted("Top-%d", figures.k()),
                                              totals.top5_accuracy(), top5_interval(totals))
                              : std::string()) +
         macro_tiles("", macro_recall(figures.classes()), macro_f1(figures.classes())) +
         tile("Calibration error", percent_figure("calibration-error", error),
              "between confidence and accuracy") +
         tile("Loss", figure("loss", totals.loss(), formatted("%.4f", totals.loss())),
              "cross-entropy");
}

std::string calibration_section(const EvaluatedModel& model) {
  LineChart chart{.title = "Accuracy by confidence",
                  .unit = Unit::kPercent,
                  .series = {{"the model", 0, false, false, {}},
                             {"perfectly calibrated", 7, true, false, {{0, 0}, {1, 1}}}},
                  .x_name = "confidence",
                  .x_unit = Unit::kPercent};
  for (const CalibrationBin& bin : model.figures.calibration())
    if (bin.images > 0) chart.series[0].points.push_back({bin.mean_confidence(), bin.accuracy()});
  return section("calibration", "Is its confidence calibrated?",
                 element("p",
                         "Images grouped by the model’s confidence. Above the diagonal it is "
                         "underconfident, below it overconfident.") +
                     element("div class=\"charts\"", line_chart_html(chart)));
}

std::string sections_of(const EvaluatedModel& model) {
  const std::string trust =
      section("trust", "Can it be trusted?", findings_list(evaluation_findings(model)));
  if (model.has_several_labels())
    return verdict_section("How good is it?", {Judged::kNote, "The " + model.details.verdict.text},
                           figure_tiles(model.details.figures, "")) +
           trust + results_html(model.data, model.details) + faults_section(model.faults);
  const ValidationDetails& details = model.details;
  return verdict_section("How good is it?", verdict_of(model), "\n" + tiles_of(model)) + trust +
         confidence_html(model.calibration, /*chosen_here=*/false) + calibration_section(model) +
         classes_html(model.data, details, model.figures.bins()) +
         confusion_html(model.data, details.confusion) + results_html(model.data, model.details) +
         faults_section(model.faults);
}

std::string page_of(const EvaluationRecord& record, const std::filesystem::path& page,
                    const std::string& title, const std::string& main) {
  const std::string facts = utc_text(record.time) + " · " + record.device + " · " +
                            record.precision + " · " + grouped(record.num_images) + " images in " +
                            shortened(record.data_path, 100);
  return page_html(title, header_html(element("bdi", escaped(title)), facts_html(facts)),
                   main + settings_section(record.options, record.versions),
                   address_of(record.data_path, page));
}

std::string short_name(const EvaluatedModel& model) {
  return shortened(name_of(model), 80);
}

std::string model_html(const EvaluatedModel& model) {
  return name_html(name_of(model), 80);
}

std::string models_table(const EvaluationRecord& record) {
  std::vector<Cells> rows;
  std::string top_k;
  for (std::size_t i = 0; i < record.models.size(); ++i) {
    const EvaluatedModel& model = record.models[i];
    const Evaluation& figures = model.figures;
    const Interval interval = top1_interval(figures.totals());
    if (figures.has_top_k()) top_k = formatted("top-%d", figures.k());
    rows.push_back({element("a href=\"" + model_page_name(i) + "\"", model_html(model)),
                    grouped(figures.totals().count), percent(figures.totals().top1_accuracy()),
                    percent(interval.low) + " to " + percent(interval.high),
                    figures.has_top_k() ? percent(figures.totals().top5_accuracy()) : "–",
                    percent(macro_recall(figures.classes())),
                    formatted("%.3f", macro_f1(figures.classes())),
                    percent(expected_calibration_error(figures.calibration()))});
  }
  std::vector<Column> columns = {
      text_column("model"), "images",           "top-1", "95 % interval", top_k, "macro recall",
      "macro F1",           "calibration error"};
  constexpr std::ptrdiff_t kTopK = 4;
  if (top_k.empty()) {
    columns.erase(columns.begin() + kTopK);
    for (Cells& row : rows) row.erase(row.begin() + kTopK);
  }
  return table("Models", columns, rows);
}

std::string pairs_table(const EvaluationRecord& record) {
  std::vector<Cells> rows;
  for (const ModelPair& pair : record.pairs)
    rows.push_back({model_html(record.models[pair.first]), model_html(record.models[pair.second]),
                    grouped(pair.answers.both), grouped(pair.answers.only_first),
                    grouped(pair.answers.only_second), grouped(pair.answers.neither),
                    formatted("%.3g", pair.test.p_value)});
  return table("Images that the models classify correctly",
               {text_column("first"), text_column("second"), "both", "only the first",
                "only the second", "neither", "p"},
               rows);
}

std::string differences_section(const EvaluationRecord& record) {
  std::string html;
  for (const ModelPair& pair : record.pairs) {
    Gallery gallery{html.empty()
                        ? "differences"
                        : formatted("differences-%zu-%zu", pair.first + 1, pair.second + 1),
                    "Where they differ",
                    "Above is the answer of “" + model_html(record.models[pair.first]) +
                        "”, below it that of “" + model_html(record.models[pair.second]) + "”.",
                    {},
                    "differences.csv"};
    for (const DifferingImage& image : pair.images)
      gallery.pictures.push_back(
          {.file = image.file,
           .label = image.true_label,
           .answer = image.first_label,
           .confidence = image.first_confidence,
           .kinds = image.first_label == image.true_label ? "right" : "wrong",
           .notes = {image.second_label + " " + percent(image.second_confidence) +
                     (image.second_label == image.true_label ? " ✓" : "")},
           .shown = {&image.thumbnail}});
    html += gallery_html(gallery);
  }
  return html;
}

}  // namespace

std::vector<Finding> evaluation_findings(const EvaluatedModel& model) {
  std::vector<Finding> findings;
  const Evaluation& figures = model.figures;
  const Totals& totals = figures.totals();
  const auto add = [&](Judged judged, const std::string& text) {
    findings.push_back({judged, text});
  };
  for (const std::string& text : model.doubts) add(Judged::kWarning, capitalized(text));
  if (model.seen)
    for (const std::string& text : seen_texts(*model.seen)) add(Judged::kWarning, text);
  if (model.num_unlabeled > 0)
    add(Judged::kWarning,
        plural(model.num_unlabeled, "image without a label is", "images without a label are") +
            " left out.");
  if (model.num_unknown > 0)
    add(Judged::kWarning, plural(model.num_unknown, "image is", "images are") +
                              " left out, of classes that the model does not know (" +
                              quoted_among(model.unknown_labels, model.data.classes, 10) + ").");
  if (model.num_bad > 0)
    add(Judged::kWarning,
        plural(model.num_bad, "image", "images") + " left out, which could not be decoded.");
  if (totals.count > 0 && totals.count < kFewJudged)
    add(Judged::kNote,
        "With " + plural(totals.count, "image", "images") + " the accuracy is uncertain by " +
            formatted("%.0f points.",
                      50 * (top1_interval(totals).high - top1_interval(totals).low)));
  const double error = expected_calibration_error(figures.calibration());
  double confidence = 0;
  for (const CalibrationBin& bin : figures.calibration()) confidence += bin.confidence_sum;
  const double excess = confidence / static_cast<double>(totals.count) - totals.top1_accuracy();
  if (error > kPoorlyCalibrated && totals.count >= kFewJudged)
    add(Judged::kWarning, "Its confidence is off by " + percent(error) + " on average: it is " +
                              (excess > 0 ? "more" : "less") +
                              " confident than accurate on these images. Do not reuse thresholds "
                              "from another dataset.");
  if (!model.seen)
    add(Judged::kNote,
        "The model does not record which images it was trained on, so any of these may be among "
        "them.");
  else if (model.seen->training + model.seen->validation == 0)
    add(Judged::kGood,
        "None of the images is identical, byte for byte, to a training or validation image of the "
        "model.");
  return findings;
}

std::string pair_finding(const EvaluationRecord& record, const ModelPair& pair) {
  const PairedAnswers& answers = pair.answers;
  const auto name = [&](std::size_t i) { return "'" + short_name(record.models[i]) + "'"; };
  const bool first_leads = answers.only_first >= answers.only_second;
  const std::size_t leader = first_leads ? pair.first : pair.second;
  const std::size_t other = first_leads ? pair.second : pair.first;
  const std::int64_t lead = std::abs(answers.only_first - answers.only_second);
  const std::string test =
      " (McNemar's test, " +
      (pair.test.p_value < 0.001 ? "p < 0.001" : formatted("p = %.3f", pair.test.p_value)) + ")";
  if (lead == 0)
    return name(pair.first) + " and " + name(pair.second) +
           " classify the same number of images correctly" + test + ".";
  const std::string text = name(leader) + " classifies " +
                           plural(lead, "more image", "more images") + " correctly than " +
                           name(other);
  if (pair.test.p_value < kSignificant)
    return text + ", which is statistically significant" + test + ".";
  return text + ", which may be due to chance" + test + ".";
}

std::string model_page_name(std::size_t model) {
  return formatted("evaluation-%zu.html", model + 1);
}

std::string model_page_html(const EvaluationRecord& record, std::size_t model,
                            const std::filesystem::path& page) {
  return page_of(record, page, short_name(record.models[model]), sections_of(record.models[model]));
}

std::string evaluation_html(const EvaluationRecord& record, const std::filesystem::path& page) {
  if (record.models.size() == 1) return model_page_html(record, 0, page);
  std::string lines;
  for (const ModelPair& pair : record.pairs)
    lines += element("p class=\"verdict\"", prose(pair_finding(record, pair)));
  std::vector<Finding> all;  // of each model, by its name
  for (const EvaluatedModel& model : record.models)
    for (const Finding& finding : evaluation_findings(model))
      all.push_back({finding.judged, "“" + short_name(model) + "”: " + finding.text});
  std::ranges::stable_sort(all, std::ranges::greater{}, &Finding::judged);
  return page_of(record, page, formatted("%zu models compared", record.models.size()),
                 section("models", "Which is best?", lines + models_table(record)) +
                     section("trust", "Can it be trusted?", findings_list(all)) +
                     section("pairs", "Image by image", pairs_table(record)) +
                     differences_section(record));
}

}  // namespace kiln
