// Lists in JSON: a row for each line or element, as tables have it, or as SageMaker, Azure ML and
// Label Studio write it; and COCO files.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "data/dataset/label_list.h"

namespace kiln {
namespace {

using nlohmann::json;

// pandas writes 3.0 where a label is missing elsewhere. Beyond 2^53, numbers that differ may be one
// in memory. Throws RowFault.
std::string number_text(double number) {
  constexpr double kMostExact = 9007199254740992;
  if (!(std::abs(number) < kMostExact))
    throw RowFault("has a number of too many digits: write it as a text");
  return number == std::floor(number) ? formatted("%.0f", number) : json(number).dump();
}

// A name or a number as text; of a list of one, its element. Throws RowFault.
std::string text_of(const json& value, const std::string& key) {
  if (value.is_null()) return {};
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text.find(kListedLabelEnd) != text.npos)
      throw RowFault("\"" + key.substr(0, 80) + "\" has control characters");
    return text;
  }
  if (value.is_number_integer() || value.is_boolean()) return value.dump();
  if (value.is_number_float()) return number_text(value.get<double>());
  if (value.is_array() && value.size() == 1) return text_of(value[0], key);
  throw RowFault("\"" + key.substr(0, 80) + "\" is " + json_kind(value) + " instead of a text");
}

// The same of labels, of which there may be a list.
std::string labels_of(const json& value, const std::string& key) {
  const bool is_list = value.is_array();
  if (is_list && value.size() > 1 &&
      std::any_of(value.begin(), value.end(), [](const json& one) { return one.is_boolean(); }))
    throw RowFault("\"" + key.substr(0, 80) +
                   "\" has true or false for each class: write the names or the numbers of its "
                   "classes, each once");
  std::string text = is_list ? std::string() : text_of(value, key);
  for (std::size_t i = 0; is_list && i < value.size(); ++i)
    text += text_of(value[i], key) + kListedLabelEnd;
  return text.empty() && !value.is_null() ? std::string(kNoListedLabels) : text;
}

constexpr std::string_view kMetadata = "-metadata";

// What SageMaker says about an attribute; nullptr: nothing.
const json* metadata_of(const json& object, const std::string& attribute) {
  const json* metadata = member_of(object, attribute + std::string(kMetadata));
  return metadata != nullptr && metadata->is_object() ? metadata : nullptr;
}

// The fields of an object, by their keys, without a label that metadata explain.
ListedRow fields_of(const json& object, ListColumns& columns, OtherColumns& others) {
  ListedRow row;
  std::array<const std::string*, kNumListFields> keys{};
  for (const auto& [key, value] : object.items()) {
    const std::optional<ListField> field = columns.field_of(key);
    if (!field && value.is_string()) others.see(key, value.get_ref<const std::string&>());
    if (!field && (value.is_boolean() || value.is_number())) others.see(key, value.dump());
    if (!field || (field == ListField::kLabel && metadata_of(object, key) != nullptr)) continue;
    if (field == ListField::kConfidence && value.is_structured()) continue;
    const auto place = static_cast<std::size_t>(*field);
    if (keys[place] != nullptr)
      throw RowFault("has \"" + *keys[place] + "\" and \"" + key +
                     "\", which mean the same: choose one with --columns");
    keys[place] = &key;
    const json* inner = value.is_object() ? member_of(value, "choices") : nullptr;  // Label Studio
    row.fields[place] =
        (*field == ListField::kLabel ? labels_of : text_of)(inner == nullptr ? value : *inner, key);
  }
  if (const std::string* label = keys[static_cast<std::size_t>(ListField::kLabel)])
    for (const auto& [key, value] : object.items())
      if (metadata_of(object, key) == nullptr) columns.refuse_second_label(*label, key);
  return row;
}

// The names of numbered classes.
std::string named_labels(const json& numbers, const json& names) {
  std::string text(numbers.empty() ? kNoListedLabels : std::string_view());
  for (const json& number : numbers) {
    const std::string id = text_of(number, "class-map");
    const json* name = member_of(names, id);
    text += (name == nullptr ? id : text_of(*name, "class-map")) + kListedLabelEnd;
  }
  return text;
}

// SageMaker's augmented manifest: the label attribute is the one with metadata beside it, of
// several the one with the name of a label.
// https://docs.aws.amazon.com/sagemaker/latest/dg/sms-data-output.html
void read_manifest_label(const json& object, ListColumns& columns, ListedRow& row) {
  const auto is_label = [&](const std::string& attribute) {
    return columns.field_of(attribute) == ListField::kLabel;
  };
  const bool is_named = columns.is_given(ListField::kLabel) ||
                        std::ranges::any_of(object.items(), [&](const auto& item) {
                          return is_label(item.key()) && metadata_of(object, item.key()) != nullptr;
                        });
  for (const auto& [key, metadata] : object.items()) {
    if (!key.ends_with(kMetadata) || !metadata.is_object()) continue;
    const std::string attribute = key.substr(0, key.size() - kMetadata.size());
    if (is_named && !is_label(attribute)) continue;
    if (const json* type = member_of(metadata, "type");
        type != nullptr && *type != "groundtruth/image-classification" &&
        *type != "groundtruth/image-classification-multilabel")
      throw RowFault("\"" + key + "\" is of " + type->dump().substr(0, 80) +
                     " instead of image classification");
    const json* name = member_of(metadata, "class-name");
    const json* number = member_of(object, attribute);
    const json* names = member_of(metadata, "class-map");
    const bool is_list = names != nullptr && number != nullptr && number->is_array();
    const bool is_one = names != nullptr && number != nullptr && number->is_number_integer();
    std::string text = is_list             ? named_labels(*number, *names)
                       : name != nullptr   ? text_of(*name, "class-name")
                       : is_one            ? named_labels(json::array({*number}), *names)
                       : number != nullptr ? labels_of(*number, attribute)
                                           : std::string();
    std::string& label = row[ListField::kLabel];
    if (!label.empty() && label != text)
      throw RowFault("has several attributes with labels: choose one with --columns label=NAME");
    label = std::move(text);
  }
}

// https://labelstud.io/guide/export: a task with its data, and the choices of its annotators.
// Those of one question, by its name ("from_name"): --columns label=NAME chooses it.
void read_task(const json& task, ListRows& rows, ListedRow& row) {
  ListColumns& columns = rows.columns;
  row = fields_of(*member_of(task, "data"), columns, rows.other_columns);
  const bool is_chosen = columns.is_given(ListField::kLabel);
  if (is_chosen && !row[ListField::kLabel].empty()) return;
  const json* annotations = member_of(task, "annotations");
  if (annotations == nullptr || !annotations->is_array()) return;
  for (const json& annotation : *annotations) {
    const json* results = member_of(annotation, "result");
    const json* cancelled = member_of(annotation, "was_cancelled");
    if (results == nullptr || !results->is_array() || (cancelled != nullptr && *cancelled == true))
      continue;
    std::string labels;
    for (const json& result : *results) {
      const json* value = member_of(result, "value");
      const json* choices = value == nullptr ? nullptr : member_of(*value, "choices");
      const json* name = member_of(result, "from_name");
      if (choices != nullptr && name != nullptr && name->is_string()) {
        const std::string question = name->get<std::string>();
        if (is_chosen && columns.field_of(question) != ListField::kLabel) continue;
        if (rows.question.empty()) rows.question = question;
        if (rows.question != question)
          throw RowFault("has choices of another question, '" + question + "' beside '" +
                         rows.question + "': choose one with --columns label=NAME");
      }
      if (choices != nullptr && *choices != json::array()) labels += labels_of(*choices, "choices");
      if (value == nullptr || !value->is_object()) continue;
      for (const auto& [kind, of_part] : value->items())  // "rectanglelabels", "labels", …
        if (kind.ends_with("labels") || kind == "taxonomy")
          throw RowFault("has an annotation of another kind (\"" + kind + "\") than \"choices\"");
    }
    if (labels.empty()) labels = kNoListedLabels;
    if (!row[ListField::kLabel].empty() && row[ListField::kLabel] != labels)
      throw RowFault("has several annotations that differ: keep one");
    row[ListField::kLabel] = std::move(labels);
  }
}

void read_object(const json& object, int line, ListRows& rows) {
  try {
    if (!object.is_object()) throw RowFault("is " + json_kind(object) + " instead of an object");
    ListedRow row;
    if (const json* data = member_of(object, "data"); data != nullptr && data->is_object()) {
      read_task(object, rows, row);
    } else {
      row = fields_of(object, rows.columns, rows.other_columns);
      if (row[ListField::kLabel].empty()) read_manifest_label(object, rows.columns, row);
    }
    row.line = line;
    row.has_label = !row[ListField::kLabel].empty();
    rows.add(row);
  } catch (const RowFault& fault) {
    rows.fault(line, fault.what());
  }
}

void read_lines(std::string_view text, ListRows& rows) {
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      read_object(parse_json(line, RepeatedKeys::kRefused), number, rows);
    } catch (const JsonFault& fault) {
      rows.fault(number, fault.what());
    }
  }
}

// Where the list or object at the beginning of a JSON text ends.
std::size_t end_of_value(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"')
      while (++i < text.size() && text[i] != '"') i += text[i] == '\\' ? 1 : 0;
    else if (text[i] == '[' || text[i] == '{')
      ++depth;
    else if ((text[i] == ']' || text[i] == '}') && --depth == 0)
      return i + 1;
  }
  return text.size();
}

// The elements of a list, of which only one is in memory. `text` becomes that of an object.
void read_elements(std::string text, ListRows& rows) {
  const std::string_view rest = trimmed(std::string_view(text).substr(end_of_value(text)));
  if (!rest.empty())
    throw RowFault("has text after its list, '" + excerpt(std::string(rest)) + "'");
  rows.unit = "entry";
  int number = 0;
  parse_json_lists("{\"\":" + std::move(text) + "}",
                   [&](const std::string&, const json& row) { read_object(row, ++number, rows); });
}

// Whether a text, which is not blank, is one line that is no COCO file; or its first line is a
// whole object, and others follow.
bool is_lines(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos || text.find_first_not_of(" \t\r\n", end) == text.npos)
    return text.find("\"categories\"") == text.npos;
  try {
    return parse_json(text.substr(0, end)).is_object();
  } catch (const JsonFault&) {
    return false;
  }
}

}  // namespace

void read_json_list(ListRows& rows) {
  std::string text = text_of_list(rows.context);
  rows.has_marks = true;
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return;
  try {
    if (text[begin] == '[')
      read_elements(std::move(text), rows);
    else if (!has_extension(rows.context.root.filename().string(), ".json") || is_lines(text))
      read_lines(text, rows);
    else
      throw RowFault(
          "is neither rows (one JSON object on each line, or a list of them), nor a COCO file with "
          "images, annotations and categories");
  } catch (const JsonFault& fault) {
    rows.unit = "line";
    rows.fault(fault.line(), fault.what());
  }
}

std::optional<Listing> list_coco_file(const DatasetContext& context, const std::string& folder) {
  DatasetContext inside = context;
  inside.root = folder;
  const std::string file = std::filesystem::absolute(context.root).string();
  std::vector<std::string> notes;
  std::optional<Listing> listing = list_coco(inside, ListedFiles(inside), {file}, notes);
  if (listing) listing->set.folder = folder;
  return listing;
}

}  // namespace kiln
