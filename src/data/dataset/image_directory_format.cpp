#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/readers.h"
#include "data/image/image.h"

namespace kiln {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLineBytes = 1 << 20;
constexpr std::int64_t kMaxClassId = 99'999;

// Throws the JsonFault of a line or column with invalid contents. Callers add the file and the
// line.
[[noreturn]] void fault(const std::string& clause) {
  throw JsonFault(0, clause);
}

const json* find(const json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const std::string& text_of(const json& value, const std::string& what) {
  if (!value.is_string()) fault(what + " is " + json_kind(value) + " instead of a string");
  return value.get_ref<const std::string&>();
}

std::int64_t integer_of(const json& value, const std::string& what) {
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || too_large) {
    fault(what + " is " + (value.is_number() ? value.dump() : json_kind(value)) +
          " instead of an integer");
  }
  return value.get<std::int64_t>();
}

void read_categories(const json& categories, ListSchema& schema) {
  if (!categories.is_array() || categories.empty()) {
    fault("\"categories\" of the label column is not a list of classes");
  }
  std::unordered_set<std::int64_t> ids;
  std::unordered_set<std::string> names;
  for (const json& category : categories) {
    if (!category.is_object() || !find(category, "id") || !find(category, "name")) {
      fault("a category is not an object with \"id\" and \"name\"");
    }
    const std::int64_t id = integer_of(category["id"], "the id of a category");
    const std::string& name = text_of(category["name"], "the name of a category");
    if (id < 0 || id > kMaxClassId) {
      fault("category id " + std::to_string(id) + " is not between 0 and " +
            std::to_string(kMaxClassId));
    }
    if (name.empty()) fault("category " + std::to_string(id) + " has an empty name");
    if (!ids.insert(id).second) fault("category id " + std::to_string(id) + " appears twice");
    if (!names.insert(name).second) fault("category '" + name + "' appears twice");
    if (schema.classes.size() <= static_cast<std::size_t>(id)) {
      schema.classes.resize(id + 1, "Others");
      schema.is_category.resize(id + 1, false);
    }
    schema.classes[id] = name;
    schema.is_category[id] = true;
  }
}

void read_column(const json& column, ListSchema& schema, bool& has_image) {
  if (!column.is_object() || !find(column, "name")) fault("a column has no \"name\"");
  const std::string& name = text_of(column["name"], "the name of a column");
  const json* properties = find(column, "properties");
  if (properties == nullptr) return;
  if (!properties->is_object()) fault("\"properties\" of column '" + name + "' is not an object");
  if (const json* reference = find(*properties, "image_ref")) {
    if (has_image) fault("two columns hold images (\"image_ref\")");
    schema.image_key = text_of(*reference, "\"image_ref\"");
    has_image = true;
  }
  const json* annotation = find(*properties, "annotation_type");
  if (annotation == nullptr) return;
  const std::string& type = text_of(*annotation, "\"annotation_type\"");
  if (type != "COCO_classification") {
    fault("its labels are of type '" + type.substr(0, 80) +
          "', but only COCO_classification (one class per image) is supported");
  }
  if (!schema.label_key.empty()) fault("two columns hold labels (\"annotation_type\")");
  const json* categories = find(*properties, "categories");
  if (categories == nullptr) fault("the label column '" + name + "' lists no \"categories\"");
  schema.label_key = name;
  read_categories(*categories, schema);
}

ListSchema schema_of(const json& document) {
  if (!document.is_object() || !find(document, "columnAttributes") ||
      !document["columnAttributes"].is_array()) {
    fault("has no list \"columnAttributes\"");
  }
  ListSchema schema;
  bool has_image = false;
  for (const json& column : document["columnAttributes"]) read_column(column, schema, has_image);
  if (!has_image) fault("has no column of images (\"properties\" with \"image_ref\")");
  return schema;
}

// Parses the list line by line, and checks that no id appears twice.
class LineReader {
 public:
  explicit LineReader(const ListSchema& schema) : schema_(schema) {
    for (std::size_t id = 0; id < schema.classes.size(); ++id) {
      if (schema.is_category[id]) ids_by_class_.emplace(schema.classes[id], id);
    }
  }

  void read(std::string_view text, int line, ListedImages& images) {
    const json row = parse_json(text);
    if (!row.is_object()) fault("is " + json_kind(row) + " instead of an object");
    Sample item;
    read_image(row, item);
    read_label(row, item);
    item.id = read_id(row, line, static_cast<std::int64_t>(images.samples.size()));
    if (item.size && !is_plausible(*item.size)) {
      images.implausible_lines.push_back(line);
      item.size.reset();
    }
    images.samples.push_back(item);
    images.lines.push_back(line);
  }

 private:
  void read_image(const json& row, Sample& item) const {
    const json* info = find(row, schema_.image_key);
    if (info == nullptr) fault("has no \"" + schema_.image_key + "\"");
    if (!info->is_object()) {
      fault("\"" + schema_.image_key + "\" is " + json_kind(*info) + " instead of an object");
    }
    const json* path = find(*info, "file_name");
    if (path == nullptr) fault("has no \"file_name\"");
    item.file_name = text_of(*path, "\"file_name\"");
    const std::string path_fault = fault_of_relative_path(item.file_name);
    if (!path_fault.empty()) fault(path_fault);
    const json* width = find(*info, "width");
    const json* height = find(*info, "height");
    if (width == nullptr || height == nullptr) return;
    item.size =
        ImageSize{.height = side(*height, "\"height\""), .width = side(*width, "\"width\"")};
  }

  static int side(const json& value, const std::string& what) {
    const std::int64_t pixels = integer_of(value, what);
    if (pixels < 1 || pixels > INT32_MAX) {
      fault(what + " " + std::to_string(pixels) + " is not a valid image size");
    }
    return static_cast<int>(pixels);
  }

  void read_label(const json& row, Sample& item) const {
    if (schema_.label_key.empty()) return;
    const json* label = find(row, schema_.label_key);
    if (label == nullptr) return;
    const std::string& name = text_of(*label, "\"" + schema_.label_key + "\"");
    if (name.empty()) return;
    const auto found = ids_by_class_.find(name);
    if (found == ids_by_class_.end()) {
      fault("the label '" + name.substr(0, 200) + "' is not one of the schema's categories");
    }
    item.label = static_cast<int>(found->second);
  }

  std::int64_t read_id(const json& row, int line, std::int64_t running_number) {
    const json* value = find(row, "id");
    if (value == nullptr) return running_number;
    const std::int64_t id = integer_of(*value, "\"id\"");
    const auto [place, is_new] = lines_by_id_.emplace(id, line);
    if (is_new) return id;
    fault("the id " + std::to_string(id) + " already appears in line " +
          std::to_string(place->second));
  }

  const ListSchema& schema_;
  std::unordered_map<std::string, std::size_t> ids_by_class_;
  std::unordered_map<std::int64_t, int> lines_by_id_;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

constexpr std::size_t kMaxSampleBytes = 64 << 20;

constexpr std::string_view kImageAndIdColumns = R"({
  "columnAttributes": [
    {
      "name": "image",
      "type": "Bytes",
      "isFeature": true,
      "elementType": {
        "typeName": "bytes",
        "isNullable": false
      },
      "properties": {
        "mime_type": "image/png",
        "image_ref": "image_info"
      }
    },
    {
      "name": "id",
      "type": "Numeric",
      "isFeature": false,
      "elementType": {
        "typeName": "int64",
        "isNullable": false
      }
    })";

constexpr std::string_view kLabelColumn = R"(,
    {
      "name": "category",
      "type": "String",
      "isFeature": false,
      "elementType": {
        "typeName": "str",
        "isNullable": false
      },
      "properties": {
        "annotation_type": "COCO_classification",
        "categories": [)";

constexpr std::string_view kLabelColumnEnd = R"(
        ]
      }
    })";

void add_sample(const Dataset& set, const Sample& item, std::string_view bytes, std::string& text) {
  text += text.empty() ? "\n" : ",\n";
  text += "  {\n    \"image\": \"" + base64(bytes) + "\",\n    \"id\": " + std::to_string(item.id);
  if (item.label >= 0) text += ",\n    \"category\": " + quote_json(set.classes[item.label]);
  text += "\n  }";
}

}  // namespace

ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context) {
  const std::string advice =
      ". Write the ImageDirectory again, for example with 'kiln convert' from the images.";
  try {
    return schema_of(parse_json(bytes));
  } catch (const JsonFault& found) {
    const std::string place = found.line() > 0 ? ", line " + std::to_string(found.line()) : "";
    context.fail(file + place + ": " + found.what() + advice);
  }
}

ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context) {
  ListedImages images;
  LineReader reader(schema);
  for (int line = 1; !bytes.empty(); ++line) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    try {
      if (text.size() > kMaxLineBytes) {
        fault("has " + std::to_string(text.size()) + " bytes, more than the limit of 1 MiB");
      }
      if (is_blank(text)) continue;
      reader.read(text, line, images);
    } catch (const JsonFault& found) {
      context.fail(file + ", line " + std::to_string(line) + ": " + found.what() +
                   ". Fix this line, or write the ImageDirectory again.");
    }
  }
  return images;
}

std::string meta_text() {
  return "type: ImageDirectory\nextension: {}\nimage_list: images.lst\nsamples: _samples.json\n"
         "schema: _schema.json\n";
}

std::string schema_text(const std::vector<std::string>& classes) {
  std::string text(kImageAndIdColumns);
  if (!classes.empty()) {
    text += kLabelColumn;
    for (std::size_t id = 0; id < classes.size(); ++id) {
      text += id == 0 ? "\n" : ",\n";
      text += "          {\n            \"id\": " + std::to_string(id) +
              ",\n            \"name\": " + quote_json(classes[id]) + "\n          }";
    }
    text += kLabelColumnEnd;
  }
  return text + "\n  ]\n}";
}

std::string list_line(const Sample& item, std::string_view file_name, const std::string* label) {
  std::string line = R"({"image_info": {"file_name": )" + quote_json(file_name);
  if (item.size) {
    line += ", \"width\": " + std::to_string(item.size->width) +
            ", \"height\": " + std::to_string(item.size->height);
  }
  line += "}";
  if (label != nullptr) line += ", \"category\": " + quote_json(*label);
  return line + ", \"id\": " + std::to_string(item.id) + "}\n";
}

std::string samples_text(const Dataset& set) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNumSamples, set.samples.size()); ++i) {
    const Sample& item = set.samples[i];
    std::string bytes;
    try {
      read_first_bytes(set, i, kMaxSampleBytes + 1, bytes);
      if (bytes.size() > kMaxSampleBytes) continue;
      decode_image(
          bytes,
          Exif::kIgnore);  // samples are published, and a link may lead to another kind of file
    } catch (const std::exception&) {
      continue;  // samples are only a preview; the loader reports bad images
    }
    add_sample(set, item, bytes, text);
  }
  return text.empty() ? "[]" : "[" + text + "\n]";
}

std::string samples_text(const Dataset& set, const std::array<std::string, kNumSamples>& images) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNumSamples, set.samples.size()); ++i)
    if (!images[i].empty() && images[i].size() <= kMaxSampleBytes)
      add_sample(set, set.samples[i], images[i], text);
  return text.empty() ? "[]" : "[" + text + "\n]";
}

}  // namespace kiln
