// What a task gives for pages as data, tables and pictures; and the page of answers.
#include <cctype>

#include "base/text.h"
#include "report/page/gallery.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxRows = 1000;

// Values from 0 to 1, from left to right.
std::string curve_html(const std::vector<double>& values) {
  constexpr double kWidth = 80, kHeight = 24, kEdge = 2;
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i)
    points += formatted("%.1f,%.1f ", kWidth * i / (values.size() - 1),
                        kEdge + (kHeight - 2 * kEdge) * (1 - values[i]));
  return element(formatted("svg class=\"curve\" width=\"%.0f\" height=\"%.0f\" "
                           "aria-hidden=\"true\"",
                           kWidth, kHeight),
                 values.size() < 2 ? "" : "<polyline points=\"" + points + "\"/>");
}

std::string table_html(const ResultTable& given) {
  std::vector<Column> columns;
  for (const std::string& title : given.columns)
    columns.push_back(columns.empty() ? text_column(title) : Column(title));
  std::vector<Cells> rows;
  for (const std::vector<std::string>& texts : given.rows) {
    Cells& cells = rows.emplace_back();
    for (const std::string& text : texts)
      cells.push_back(cells.empty() ? name_html(text) : escaped(text));
    if (rows.size() <= given.bins.size())
      cells[0] = binned_html(texts[0], given.bins[rows.size() - 1]);
    if (rows.size() <= given.curves.size())
      cells.push_back(curve_html(given.curves[rows.size() - 1]));
  }
  return section(given.id, given.heading,
                 element("p", escaped(given.lead)) + table(given.caption, columns, rows));
}

}  // namespace

std::string binned_html(const std::string& name, const ConfidenceBins& bins) {
  std::string text;
  for (const std::int64_t count : bins) text += std::to_string(count) + " ";
  return element("span data-bins=\"" + text + "\"", name_html(name));
}

std::string results_html(const DataRecord& data, const ValidationDetails& details) {
  std::string html;
  for (const ResultTable& table : details.tables) html += table_html(table);
  for (const PictureList& list : details.pictures) html += gallery_html(data, list);
  return html;
}

static std::string gallery_page(const char* title, const auto& page,
                                const std::filesystem::path& path, const std::string& main) {
  const std::string facts =
      utc_text(page.time) + " · " + page.model + " · " + shortened(page.data_path, 100);
  return page_html(title, header_html(title, facts_html(facts)), main,
                   address_of(page.data_path, path));
}

std::string answers_html(const AnswersPage& page, const std::filesystem::path& path) {
  DataRecord data;
  data.classes = page.classes;
  long long num_answered = 0;
  std::vector<Cells> rows;
  for (std::size_t label = 0; label < page.counts.size(); ++label) {
    num_answered += page.counts[label];
    if (page.counts[label] > 0 && rows.size() < kMaxRows)
      rows.push_back({name_html(page.classes[label]), grouped(page.counts[label]),
                      percent(share_of(page.counts[label], page.num_images))});
  }
  std::string tiles = count_tile("Images", "images", page.num_images) +
                      count_tile("Answered", "answered", num_answered);
  if (page.threshold > 0) tiles += count_tile("Unsure", "unsure", page.num_images - num_answered);
  if (page.num_bad > 0) tiles += count_tile("Bad images", "bad", page.num_bad);
  Gallery gallery{"pictures", "Pictures", "Some images of each class.", {}};
  for (const auto& [image, neighbors] : page.images) {
    ShownImage& picture = gallery.pictures.emplace_back(shown_image(data, image));
    if (!neighbors.empty()) picture.notes = {"near: " + joined(neighbors, ", ")};
    if (page.threshold > 0)
      picture.kinds = image.confidence < page.threshold ? "unsure" : "answered";
  }
  return gallery_page(
      "Answers for new images", page, path,
      section("answers", "How many of each class?",
              element("dl class=\"tiles\"", tiles) +
                  table("Images by answer", {text_column("class"), "images", "share"}, rows)) +
          gallery_html(gallery));
}

std::string selection_html(const SelectionPage& page, const std::filesystem::path& path) {
  DataRecord data;
  data.classes = page.classes;
  Gallery gallery{.id = "selection",
                  .heading = "Images to label",
                  .lead = prose("Those that teach the model most first. Above: its guess. Save "
                                "`decisions.csv`: `kiln train` takes it as `--labels`."),
                  .asks = true};
  if (page.classes.size() <= kMaxRows) gallery.classes = page.classes;
  for (const JudgedImage& image : page.images) gallery.pictures.push_back(shown_image(data, image));
  return gallery_page("Images to label next", page, path, gallery_html(gallery));
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string figure_tiles(const std::vector<Figure>& figures, const std::string& when) {
  std::string tiles;
  for (const Figure& figure : figures) {
    if (figure.is_counted) continue;
    std::string id = figure.name;
    for (char& letter : id) letter = letter == '_' ? '-' : letter;
    tiles += tile(capitalized(short_title(figure)) + when, percent_figure(id, figure.value), "");
  }
  return tiles;
}

std::string macro_tiles(const std::string& when, double recall, double f1) {
  return tile("Macro recall" + when, percent_figure("macro-recall", recall),
              "all classes weighted equally") +
         tile("Macro F1" + when, figure("macro-f1", f1, formatted("%.3f", f1)),
              "of recall and precision, all classes weighted equally");
}

}  // namespace kiln
