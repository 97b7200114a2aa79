// What a task gives for pages as data: tables and pictures.
#include <cctype>

#include "base/text.h"
#include "report/page/html.h"
#include "report/page/page.h"

namespace kiln {
namespace {

// Values from 0 to 1, from left to right.
std::string curve_html(const std::vector<double>& values) {
  constexpr double kWidth = 80, kHeight = 24, kEdge = 2;
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i)
    points += formatted("%.1f,%.1f ",
                        kWidth * static_cast<double>(i) / static_cast<double>(values.size() - 1),
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
    if (rows.size() <= given.curves.size())
      cells.push_back(curve_html(given.curves[rows.size() - 1]));
  }
  return section(given.id, given.heading,
                 element("p", escaped(given.lead)) + table(given.caption, columns, rows));
}

std::string pictures_html(const DataRecord& data, const PictureList& list) {
  const bool is_small = data.eval_height > 0 && data.eval_height <= kSmallImage;
  std::string figures;
  std::size_t num_bytes = 0;
  for (const JudgedImage& image : list.images) {
    const std::string encoded = base64(image.thumbnail.jpeg);
    if (encoded.empty() || num_bytes + encoded.size() > kMaxPictureBytes) continue;
    num_bytes += encoded.size();
    const std::string name = class_name(data, image.guess);
    figures += captioned(image_html(name + " " + list.word, encoded, is_small),
                         caption_line("guess", name_html(name) + " " + escaped(list.word) + ", " +
                                                   percent(image.confidence)) +
                             caption_line("file", name_html(image.file)));
  }
  if (figures.empty()) return "";
  return section(list.id, list.heading, element("p", escaped(list.lead)) + gallery(figures));
}

}  // namespace

std::string results_html(const DataRecord& data, const ValidationDetails& details) {
  std::string html;
  for (const ResultTable& table : details.tables) html += table_html(table);
  for (const PictureList& list : details.pictures) html += pictures_html(data, list);
  return html;
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

}  // namespace kiln
