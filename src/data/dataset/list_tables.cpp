// Lists as lines of text: CSV and TSV, MXNet's .lst, and plain lists of a path and a label.
#include <algorithm>
#include <stdexcept>

#include "base/text.h"
#include "data/dataset/label_list.h"

namespace kiln {
namespace {

// Calls `visit` with each line that is not blank, without its end, and its number.
template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = take_line(text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != line.npos) visit(line, number);
  }
}

// Tables that spreadsheets write have tabs or semicolons.
char separator_of(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (first.find('\t') != first.npos) return '\t';
  return first.find(';') != first.npos && first.find(',') == first.npos ? ';' : ',';
}

// The columns of a table whose first line names none: an image file and its label. Throws RowFault
// if it is not so plain.
ListPlaces guessed_places(const std::vector<std::string>& first) {
  ListPlaces places = kNoPlaces;
  const std::size_t path = !first.empty() && has_image_extension(first[0]) ? 0 : 1;
  if (first.size() > 2 || path >= first.size() || !has_image_extension(first[path]))
    throw RowFault("has the first line '" + excerpt(joined(first, ",")) +
                   "', which names no column of image paths (path, file, filename, image or "
                   "image_path): name it, as in --columns path=NAME,label=NAME, or by its number "
                   "if the line is a row: --columns path=1,label=3");
  places[static_cast<std::size_t>(ListField::kPath)] = path;
  if (first.size() == 2) places[static_cast<std::size_t>(ListField::kLabel)] = 1 - path;
  return places;
}

void read_rows(std::string_view text, ListRows& rows) {
  CsvReader reader(text, separator_of(text));
  std::vector<std::string> fields;
  const auto next = [&] {
    try {
      return reader.next(fields);
    } catch (const std::invalid_argument& fault) {
      rows.fault(reader.line(), std::string(fault.what()) + "; nothing after it was read");
      return false;
    }
  };
  if (!next()) return;
  std::optional<ListPlaces> places = rows.columns.numbers(fields.size());
  const bool has_numbers = places.has_value();
  if (!has_numbers) places = rows.columns.places(fields);
  const bool is_row = has_numbers || !places;
  if (!places) places = guessed_places(fields);
  const std::size_t num_columns = fields.size();
  std::vector<std::string> names = fields;
  for (std::size_t i = 0; is_row && i < names.size(); ++i) names[i] = std::to_string(i + 1);
  for (bool more = is_row || next(); more; more = next()) {
    if (fields.size() != num_columns) {
      rows.fault(reader.line(),
                 "it has " + std::to_string(fields.size()) + " fields, but the first line has " +
                     std::to_string(num_columns) + ": put a text with a comma in double quotes");
      continue;
    }
    ListedRow row{.line = reader.line()};
    for (std::size_t field = 0; field < kNumListFields; ++field)
      if ((*places)[field] < num_columns) row.fields[field] = fields[(*places)[field]];
    row.has_label = (*places)[static_cast<std::size_t>(ListField::kLabel)] < num_columns;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (std::ranges::count(*places, i) == 0) rows.other_columns.see(names[i], fields[i]);
    rows.add(row);
  }
}

}  // namespace

void read_table(ListRows& rows) {
  read_rows(text_of_list(rows.context), rows);
}

// https://mxnet.apache.org, im2rec: index, one or more labels, path; separated by tabs.
void read_mxnet_list(ListRows& rows) {
  rows.has_columns = false;
  const std::string text = text_of_list(rows.context);
  for_each_line(text, [&](std::string_view line, int number) {
    const std::size_t index = line.find('\t'), path = line.rfind('\t');
    if (index == line.npos || index == path)
      return rows.fault(number, "is not an index, a label and a path with tabs between them");
    const std::string_view label = line.substr(index + 1, path - index - 1);
    if (label.find('\t') != label.npos)
      return rows.fault(number,
                        "has several labels, which may be numbers of classes or a 0 or 1 for each: "
                        "give a list that ends in .csv or .jsonl, for --task multi-label");
    ListedRow row{.line = number, .has_label = true};
    row[ListField::kPath] = line.substr(path + 1);
    row[ListField::kLabel] = without_zero_fraction(label);  // im2rec writes 3.000000
    rows.add(row);
  });
}

// A path, and after the last blank its label: as Keras, torchvision and ImageNet's lists have it.
void read_plain_list(ListRows& rows) {
  const std::string text = text_of_list(rows.context);
  if (std::string_view(text).substr(0, text.find('\n')).find_first_of("\t,;") != text.npos)
    return read_rows(text, rows);
  rows.has_columns = false;
  for_each_line(text, [&](std::string_view line, int number) {
    line = line.substr(0, line.find_last_not_of(" \t") + 1);
    const std::size_t blank = has_image_extension(line) ? line.npos : line.find_last_of(" \t");
    ListedRow row{.line = number, .has_label = blank != line.npos};
    row[ListField::kPath] = line.substr(0, line.find_last_not_of(" \t", blank) + 1);
    if (row.has_label) row[ListField::kLabel] = line.substr(blank + 1);
    rows.add(row);
  });
}

}  // namespace kiln
