// The parts of pages that are about several labels an image.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "record/label_scores.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxRows = 1000, kMaxPoints = 40;
constexpr int kMaxOfMatrix = 40;

std::string share_text(double share) {
  return std::isfinite(share) ? percent(share) : "–";
}

// Precision by recall, both from 0 to 1, as a small curve; empty without images of the class.
std::string curve_html(const std::vector<AnswerBin>& answers) {
  std::int64_t all = 0;
  for (const AnswerBin& bin : answers) all += bin.right;
  if (all == 0) return "";
  std::string points;
  std::int64_t told = 0, hits = 0;
  const std::size_t stride = answers.size() / kMaxPoints + 1;
  for (std::size_t i = answers.size(); i-- > 0;) {
    told += answers[i].images;
    hits += answers[i].right;
    if (i % stride == 0)
      points += formatted("%.1f,%.1f ", 60 * share_of(hits, all), 20 - 20 * share_of(hits, told));
  }
  return "<svg class=\"curve\" viewBox=\"-1 -1 62 22\" width=\"62\" height=\"22\" role=\"img\" "
         "aria-label=\"precision by recall\"><polyline fill=\"none\" stroke=\"currentColor\" "
         "points=\"" +
         points + "\"/></svg>";
}

std::string classes_table(const DataRecord& data, const ValidationDetails& details) {
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < details.labels.size(); ++c) order.push_back(c);
  const auto rank = [&](std::size_t c) {
    const double precision = details.labels[c].average_precision;
    return std::isnan(precision) ? 2 : precision;
  };
  std::ranges::stable_sort(order, {}, rank);
  order.resize(std::min(order.size(), kMaxRows));
  std::vector<Cells> rows;
  for (const std::size_t c : order) {
    const LabelScore& score = details.labels[c];
    const LabelCalibration label =
        c < details.calibration.labels.size() ? details.calibration.labels[c] : LabelCalibration{};
    const auto id = static_cast<int>(c);
    rows.push_back({name_html(class_name(data, id)), share_text(score.average_precision),
                    curve_html(label.answers), share_text(score.precision()),
                    share_text(score.recall()),
                    std::isfinite(score.f1()) ? formatted("%.3f", score.f1()) : "–",
                    formatted("%.3f", label.threshold), grouped(score.images), grouped(score.told),
                    data.train_counts.empty() ? "–" : grouped(count_of(data.train_counts, id))});
  }
  return table("Classes, lowest average precision first",
               {text_column("class"), "average precision", text_column("precision by recall"),
                "precision", "recall", "F1", "threshold", "images", "told", "training images"},
               rows);
}

std::string together_html(const DataRecord& data, const ConfusionMatrix& matrix) {
  if (matrix.empty() || matrix.num_classes > kMaxOfMatrix) return "";
  std::vector<Column> columns = {text_column("true ↓ told →")};
  std::vector<Cells> rows;
  for (int truth = 0; truth < matrix.num_classes; ++truth) {
    columns.emplace_back(class_name(data, truth));
    Cells cells = {name_html(class_name(data, truth))};
    for (int told = 0; told < matrix.num_classes; ++told)
      cells.push_back(matrix.at(truth, told) > 0 ? grouped(matrix.at(truth, told)) : "");
    rows.push_back(std::move(cells));
  }
  return section(
      "co-occurrence", "Told together",
      element("p",
              "Rows are classes that images have, columns classes that they are told. An "
              "image counts in each pair of its classes, so cells beside the diagonal "
              "are no mistakes: they show which classes occur together.") +
          table("Images by a true and a told class", columns, rows));
}

std::string gallery_of(const DataRecord& data, const std::vector<JudgedImage>& images,
                       const std::string& id, const std::string& heading, const std::string& lead,
                       const char* word) {
  const bool is_small = data.eval_height > 0 && data.eval_height <= kSmallImage;
  std::string figures;
  std::size_t num_bytes = 0;
  for (const JudgedImage& image : images) {
    const std::string encoded = base64(image.thumbnail.jpeg);
    if (encoded.empty() || num_bytes + encoded.size() > kMaxPictureBytes) continue;
    num_bytes += encoded.size();
    const std::string name = class_name(data, image.guess);
    figures += captioned(
        image_html(name + " " + word, encoded, is_small),
        caption_line("guess", name_html(name) + " " + word + ", " + percent(image.confidence)) +
            caption_line("file", name_html(image.file)));
  }
  return figures.empty() ? "" : section(id, heading, element("p", lead) + gallery(figures));
}

}  // namespace

std::string labels_html(const DataRecord& data, const ValidationDetails& details,
                        bool chosen_here) {
  if (details.labels.empty()) return "";
  std::string lead =
      "A class is told of an image if its probability reaches the class’s threshold" +
      std::string(chosen_here
                      ? ", which was chosen on these images for the highest F1: the results "
                        "at thresholds are slightly optimistic."
                      : ".") +
      " Average precision does not depend on the threshold: it is the mean precision over all "
      "recalls.";
  if (details.labels.size() > kMaxRows)
    lead += formatted(" Showing %zu of %zu classes.", kMaxRows, details.labels.size());
  return section("classes", "Results by class", element("p", lead) + classes_table(data, details)) +
         together_html(data, details.co_occurrence) +
         gallery_of(data, details.most_wrong, "mistakes", "Surest labels that are not there",
                    "The images lack these labels, or were given too few.", "told") +
         gallery_of(data, details.missed, "missed", "Surest labels that were missed",
                    "The images have these labels, which the model is surest that they lack.",
                    "missed");
}

std::string label_tiles(const LabelMetrics& metrics, const std::string& when) {
  const auto f1 = [&](const char* id, const char* name, double value, const char* more) {
    return tile(name + when, figure(id, value, formatted("%.3f", value)), more);
  };
  return tile("Mean average precision" + when,
              percent_figure("mean-average-precision", metrics.mean_average_precision),
              "mean over the classes that images have") +
         f1("micro-f1", "Micro F1", metrics.micro_f1, "over all labels of all images") +
         f1("macro-f1", "Macro F1", metrics.macro_f1,
            "mean over the classes that images have or are told");
}

double average_precision_by_chance(const std::vector<LabelScore>& scores, std::int64_t images) {
  double sum = 0;
  std::int64_t count = 0;
  for (const LabelScore& score : scores)
    if (score.images > 0) sum += share_of(score.images, images), ++count;
  return share_of(sum, count);
}

}  // namespace kiln
