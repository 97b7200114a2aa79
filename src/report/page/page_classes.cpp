// The saved model's results by class: the table, the confusion matrix and the worst mistakes.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/page/html.h"
#include "report/page/page.h"
#include "report/record/run_summary.h"

namespace kiln {
namespace {

constexpr std::size_t kMostRows = 1000;
constexpr int kMostMatrixRows = 40;
constexpr std::size_t kMostPairs = 12;
constexpr std::size_t kMostImages = 24;
constexpr std::size_t kMostImageBytes = 400'000;
constexpr int kSmallImage = 96;  // pixels; thumbnails up to this size are scaled without smoothing

std::string name_html(const RunRecord& run, int label) {
  return element("bdi", escaped(class_name(run.start.data, label)));
}

std::string share_html(double share) {
  if (!std::isfinite(share)) return "–";
  return element(formatted("span class=\"bar\" style=\"--value:%.1f%%\"", 100 * share),
                 percent(share));
}

// The class's most frequent wrong prediction and its count; empty for none.
std::string taken_for(const RunRecord& run, int label) {
  const ConfusionMatrix& matrix = run.details.confusion;
  const int most = most_often_taken_for(matrix, label);
  if (most < 0) return "";
  return name_html(run, most) + " " +
         element("span class=\"quiet\"", grouped(matrix.at(label, most)));
}

// A cell of the matrix, colored by its share of the row.
std::string matrix_cell(const ConfusionMatrix& matrix, int truth, int guess,
                        std::int64_t row_images) {
  const std::int64_t count = matrix.at(truth, guess);
  if (count == 0) return "<td></td>";
  const double share = static_cast<double>(count) / static_cast<double>(row_images);
  const int level = std::clamp(static_cast<int>(std::ceil(9 * share)), 1, 9);
  return element(formatted("td class=\"%s%d\"", truth == guess ? "right" : "wrong", level),
                 std::to_string(count));
}

std::string matrix_table(const RunRecord& run, const CondensedMatrix& small) {
  std::vector<std::string> names;
  for (const int label : small.labels) names.push_back(name_html(run, label));
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

std::string pairs_table(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  for (const Confusion& pair : worst_confusions(run.details.confusion, kMostPairs))
    rows.push_back({name_html(run, pair.truth), name_html(run, pair.guess), grouped(pair.images)});
  if (rows.empty()) return "";
  return table("Confused most often", {{"true class", false}, {"predicted", false}, {"images"}},
               rows);
}

std::string mistake(const RunRecord& run, const JudgedImage& image, const std::string& encoded) {
  const DataRecord& data = run.start.data;
  const bool small = data.eval_height > 0 && data.eval_height <= kSmallImage;
  const std::string alt = class_name(data, image.truth) + " predicted as " +
                          class_name(data, image.guess) + ", " + percent(image.confidence);
  return element(
             "figure",
             formatted("<img%s alt=\"", small ? " class=\"pixels\"" : "") + escaped(alt) +
                 "\" src=\"data:image/jpeg;base64," + encoded + "\">" +
                 element("figcaption",
                         element("span class=\"guess\"",
                                 name_html(run, image.guess) + " " + percent(image.confidence)) +
                             element("span class=\"truth\"", "is " + name_html(run, image.truth)) +
                             element("span class=\"file\"",
                                     element("bdi", escaped(shortened(image.file, 60)))))) +
         "\n";
}

}  // namespace

std::string classes_html(const RunRecord& run) {
  const DataRecord& data = run.start.data;
  std::vector<std::vector<std::string>> rows;
  const std::vector<ClassScore> scores = class_scores(run.details.confusion);
  for (const ClassScore& score : scores) {
    if (rows.size() == kMostRows) break;
    rows.push_back({name_html(run, score.label), share_html(score.recall()),
                    share_html(score.precision()), grouped(score.images), grouped(score.hits),
                    grouped(count_of(data.train_counts, score.label)),
                    taken_for(run, score.label)});
  }
  if (rows.empty()) return "";
  std::string lead = formatted(
      "Results of the model of epoch %d, worst class first. Recall: share of the class's images "
      "that are classified correctly. Precision: share of the predictions of this class that are "
      "correct.",
      run.details.epoch);
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

std::string confusion_html(const RunRecord& run) {
  if (run.details.confusion.empty()) return "";
  const CondensedMatrix small = condensed(run.details.confusion, kMostMatrixRows);
  std::string lead = "Rows are true classes, columns are predicted classes.";
  if (small.num_others > 0)
    lead += formatted(
        " Showing the %zu classes with the most errors; the last row and column combine the other "
        "%d.",
        small.labels.size(), small.num_others);
  return section("confusion", "Confusion matrix",
                 element("p", lead) +
                     element("div class=\"beside\"", matrix_table(run, small) + pairs_table(run)));
}

std::string mistakes_html(const RunRecord& run) {
  std::string figures;
  std::size_t num_shown = 0, num_bytes = 0;
  for (const JudgedImage& image : run.details.most_wrong) {
    const std::string encoded = base64(image.thumbnail.jpeg);
    if (encoded.empty() || num_bytes + encoded.size() > kMostImageBytes) continue;
    figures += mistake(run, image, encoded);
    num_bytes += encoded.size();
    if (++num_shown == kMostImages) break;
  }
  if (figures.empty()) return "";
  return section(
      "mistakes", "Most confident mistakes",
      element(
          "p",
          "Misclassified validation images with the highest confidence: hard or mislabeled ones.") +
          element("div class=\"mistakes\"", "\n" + figures));
}

}  // namespace kiln
