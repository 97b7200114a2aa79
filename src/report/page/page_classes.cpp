// A model's predictions for labeled images: how many it can answer at which confidence, the table
// of classes, the confusion matrix and the most confident mistakes.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "record/evaluation.h"
#include "record/run_summary.h"
#include "report/page/chart.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxRows = 1000;
constexpr int kMaxMatrixRows = 40;
constexpr std::size_t kMaxPairs = 12;
constexpr std::size_t kMaxImages = 24;
constexpr std::size_t kMaxImageBytes = 400'000;
constexpr int kSmallImage = 96;  // pixels; thumbnails up to this size are scaled without smoothing

constexpr std::array<double, 5> kWantedAccuracies = {0.9, 0.95, 0.98, 0.99, 0.999};

// A row of the table "Answers by target accuracy". `wanted`: the target, 0 to 1.
std::vector<std::string> answer_row(const std::vector<AnswerBin>& answers, double wanted) {
  const std::optional<AnswerRate> rate = answer_rate_for(answers, wanted);
  const std::string name = formatted("%g %%", 100 * wanted);
  if (!rate) return {name, "–", "0 %", "–", "–", "no threshold is that accurate"};
  const Interval interval = rate->interval();
  return {name,
          formatted("%.6g", rate->threshold),
          percent(rate->share()),
          percent(rate->accuracy()),
          percent(interval.low) + " to " + percent(interval.high),
          rate->can_be_promised() ? ""
                                  : formatted("not reliable: only %lld answers",
                                              static_cast<long long>(rate->answered))};
}

// A chart of the accuracy by the share of images answered, the most confident ones first.
std::string trade_chart(const std::vector<AnswerBin>& answers) {
  LineChart chart{.title = "Accuracy by share answered",
                  .unit = Unit::kPercent,
                  .series = {{"right", 0, false, false, {}}},
                  .x_name = "answered",
                  .x_unit = Unit::kPercent};
  std::int64_t images = 0, answered = 0, right = 0;
  for (const AnswerBin& bin : answers) images += bin.images;
  for (auto bin = answers.rbegin(); bin != answers.rend(); ++bin) {
    if (bin->images == 0) continue;
    answered += bin->images;
    right += bin->right;
    chart.series[0].points.push_back({static_cast<double>(answered) / static_cast<double>(images),
                                      static_cast<double>(right) / static_cast<double>(answered)});
  }
  return element("div class=\"charts\"", line_chart_html(chart));
}

std::string name_html(const DataRecord& data, int label) {
  return element("bdi", escaped(class_name(data, label)));
}

std::string share_html(double share) {
  if (!std::isfinite(share)) return "–";
  return element(formatted("span class=\"bar\" style=\"--value:%.1f%%\"", 100 * share),
                 percent(share));
}

// Returns the most frequent wrong prediction for the class and its count; empty if there is none.
std::string taken_for(const DataRecord& data, const ConfusionMatrix& matrix, int label) {
  const int most = most_often_taken_for(matrix, label);
  if (most < 0) return "";
  return name_html(data, most) + " " +
         element("span class=\"quiet\"", grouped(matrix.at(label, most)));
}

// A cell of the matrix, colored by its share of the row's images.
std::string matrix_cell(const ConfusionMatrix& matrix, int truth, int guess,
                        std::int64_t row_images) {
  const std::int64_t count = matrix.at(truth, guess);
  if (count == 0) return "<td></td>";
  const double share = static_cast<double>(count) / static_cast<double>(row_images);
  const int level = std::clamp(static_cast<int>(std::ceil(9 * share)), 1, 9);
  return element(formatted("td class=\"%s%d\"", truth == guess ? "right" : "wrong", level),
                 std::to_string(count));
}

std::string matrix_table(const DataRecord& data, const CondensedMatrix& small) {
  std::vector<std::string> names;
  for (const int label : small.labels) names.push_back(name_html(data, label));
  if (small.num_others > 0) names.push_back(formatted("%d others", small.num_others));
  std::string head = "<th class=\"text corner\">true ↓ predicted →</th>";
  for (const std::string& name : names) head += element("th scope=\"col\"", element("span", name));
  std::string body;
  const ConfusionMatrix& counts = small.counts;
  for (int truth = 0; truth < counts.num_classes; ++truth) {
    std::int64_t images = 0;
    for (int guess = 0; guess < counts.num_classes; ++guess) images += counts.at(truth, guess);
    std::string cells =
        element("th scope=\"row\" class=\"text\"", names[static_cast<std::size_t>(truth)]);
    for (int guess = 0; guess < counts.num_classes; ++guess)
      cells += matrix_cell(counts, truth, guess, images);
    body += element("tr", cells) + "\n";
  }
  return element(
      "div class=\"scrolls\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"",
      element(counts.num_classes > 15 ? "table class=\"matrix dense\"" : "table class=\"matrix\"",
              "<caption>Images by true class and predicted class</caption>" +
                  element("thead", element("tr", head)) + element("tbody", body)));
}

std::string pairs_table(const DataRecord& data, const ConfusionMatrix& matrix) {
  std::vector<std::vector<std::string>> rows;
  for (const Confusion& pair : worst_confusions(matrix, kMaxPairs))
    rows.push_back(
        {name_html(data, pair.truth), name_html(data, pair.guess), grouped(pair.images)});
  if (rows.empty()) return "";
  return table("Confused most often", {{"true class", false}, {"predicted", false}, {"images"}},
               rows);
}

// Returns an `<img>`; empty if `encoded`, a JPEG in Base64, is empty.
std::string picture(const DataRecord& data, const std::string& alt, const std::string& encoded) {
  if (encoded.empty()) return "";
  const bool small = data.eval_height > 0 && data.eval_height <= kSmallImage;
  return formatted("<img%s alt=\"", small ? " class=\"pixels\"" : "") + escaped(alt) +
         "\" src=\"data:image/jpeg;base64," + encoded + "\">";
}

// `encoded`: the thumbnail, a JPEG in Base64. `encoded_map`: its heat map, likewise, or empty.
std::string mistake(const DataRecord& data, const JudgedImage& image, const std::string& encoded,
                    const std::string& encoded_map) {
  const std::string guess = class_name(data, image.guess);
  return element(
             "figure",
             picture(data,
                     class_name(data, image.truth) + " predicted as " + guess + ", " +
                         percent(image.confidence),
                     encoded) +
                 picture(data, "heat map for " + guess, encoded_map) +
                 element("figcaption",
                         element("span class=\"guess\"",
                                 name_html(data, image.guess) + " " + percent(image.confidence)) +
                             element("span class=\"truth\"", "is " + name_html(data, image.truth)) +
                             element("span class=\"file\"",
                                     element("bdi", escaped(shortened(image.file, 60)))))) +
         "\n";
}

}  // namespace

std::string confidence_html(const Calibration& calibration, bool chosen_here) {
  if (calibration.answers.empty()) return "";
  if (is_at_limit(calibration.temperature))
    return section(
        "confidence", "How many images can it answer?",
        element("p", formatted("Its confidence cannot be calibrated: the temperature that "
                               "fits best is outside of %g to %g. Do not rely on it.",
                               kLowestTemperature, kHighestTemperature)));
  std::vector<std::vector<std::string>> rows;
  rows.reserve(kWantedAccuracies.size());
  for (const double wanted : kWantedAccuracies)
    rows.push_back(answer_row(calibration.answers, wanted));
  return section(
      "confidence", "How many images can it answer?",
      element("p",
              std::string(
                  "If the model answers only above a confidence threshold, it is more accurate. "
                  "Confidence is the softmax of the logits divided by the temperature ") +
                  figure("temperature", calibration.temperature,
                         formatted("%.3f", calibration.temperature)) +
                  (chosen_here ? ". The temperature and the thresholds were chosen on these "
                                 "validation images, so the results are slightly optimistic."
                               : ". The thresholds were chosen on these images, so the results are "
                                 "slightly optimistic.")) +
          trade_chart(calibration.answers) +
          table("Answers by target accuracy",
                {{"target"},
                 {"confidence from"},
                 {"answered"},
                 {"accuracy"},
                 {"95 % interval"},
                 {"", false}},
                rows));
}

std::string classes_html(const DataRecord& data, const ValidationDetails& details) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<ClassScore> scores = class_scores(details.confusion);
  for (const ClassScore& score : scores) {
    if (rows.size() == kMaxRows) break;
    rows.push_back(
        {name_html(data, score.label), share_html(score.recall()), share_html(score.precision()),
         grouped(score.images), grouped(score.hits),
         data.train_counts.empty() ? "–" : grouped(count_of(data.train_counts, score.label)),
         taken_for(data, details.confusion, score.label)});
  }
  if (rows.empty()) return "";
  std::string lead =
      (details.epoch > 0 ? formatted("Results of the model of epoch %d, worst", details.epoch)
                         : std::string("Worst")) +
      " class first. Recall: share of the class's images that are classified correctly. Precision: "
      "share of the predictions of this class that are correct. The macro recall (mean over the "
      "classes that have images) is " +
      percent(macro_recall(scores)) + ".";
  if (rows.size() < scores.size())
    lead += formatted(" Showing %zu of %zu classes.", rows.size(), scores.size());
  return section("classes", "Results by class",
                 element("p", lead) + table("Classes, worst recall first",
                                            {{"class", false},
                                             {"recall"},
                                             {"precision"},
                                             {"images"},
                                             {"correct"},
                                             {"training images"},
                                             {"most confused with", false}},
                                            rows));
}

std::string confusion_html(const DataRecord& data, const ConfusionMatrix& matrix) {
  if (matrix.empty()) return "";
  const CondensedMatrix small = condensed(matrix, kMaxMatrixRows);
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

std::string mistakes_html(const DataRecord& data, const std::vector<JudgedImage>& wrong,
                          const std::vector<Thumbnail>& heat_maps) {
  std::string figures;
  std::size_t num_shown = 0, num_bytes = 0;
  for (std::size_t i = 0; i < wrong.size() && num_shown < kMaxImages; ++i) {
    const std::string encoded = base64(wrong[i].thumbnail.jpeg);
    const std::string encoded_map = i < heat_maps.size() ? base64(heat_maps[i].jpeg) : "";
    const std::size_t size = encoded.size() + encoded_map.size();
    if (encoded.empty() || num_bytes + size > kMaxImageBytes) continue;
    figures += mistake(data, wrong[i], encoded, encoded_map);
    num_bytes += size;
    ++num_shown;
  }
  if (figures.empty()) return "";
  std::string lead = "Misclassified images with the highest confidence: hard or mislabeled ones.";
  if (!heat_maps.empty())
    lead +=
        " Below each, yellow marks the parts that led to the prediction, and violet the others.";
  return section("mistakes", "Most confident mistakes",
                 element("p", lead) + element("div class=\"mistakes\"", "\n" + figures));
}

}  // namespace kiln
