// An ImageDirectory: `_meta.yaml` names the list and the schema; any fault in them is an error, and
// the folder is never read as another kind. The files are also written here.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/listing.h"
#include "data/image/image.h"

namespace kiln {
namespace {

using nlohmann::json;

const char* const kRewrite =
    ". Write the ImageDirectory again, for example with 'kiln convert' from the images.";

constexpr std::size_t kMaxLineBytes = 1 << 20;

// About the contents of a line or column. Callers add the file and the line.
[[noreturn]] void fault(const std::string& clause) {
  throw JsonFault(0, clause);
}

[[noreturn]] void fail_at(const DatasetContext& context, const std::string& file,
                          const JsonFault& found) {
  const std::string place = found.line() > 0 ? ", line " + std::to_string(found.line()) : "";
  context.fail(file + place + ": " + found.what() + kRewrite);
}

void read_categories(const json& categories, ListSchema& schema) {
  if (!categories.is_array() || categories.empty())
    fault("\"categories\" of the label column is not a list of classes");
  for (const json& category : categories) {
    const std::int64_t id = integer_at(category, "id");
    const std::string& name = text_at(category, "name");
    if (id < 0 || id >= std::int64_t{kMaxClasses})
      fault("category id " + std::to_string(id) + " is not between 0 and 99999");
    if (name.empty()) fault("category " + std::to_string(id) + " has an empty name");
    if (schema.classes.size() <= static_cast<std::size_t>(id)) schema.classes.resize(id + 1);
    if (!schema.classes[id].empty()) fault("category id " + std::to_string(id) + " appears twice");
    if (!schema.ids.emplace(name, id).second) fault("category '" + name + "' appears twice");
    schema.classes[id] = name;
  }
}

void read_column(const json& column, ListSchema& schema, bool& has_image) {
  const std::string& name = text_at(column, "name");
  const json* properties = member_of(column, "properties");
  if (properties == nullptr) return;
  if (!properties->is_object()) fault("\"properties\" of column '" + name + "' is not an object");
  if (member_of(*properties, "image_ref") != nullptr) {
    if (has_image) fault("two columns hold images (\"image_ref\")");
    schema.image_key = text_at(*properties, "image_ref");
    has_image = true;
  }
  if (member_of(*properties, "annotation_type") == nullptr) return;
  const std::string& type = text_at(*properties, "annotation_type");
  if (type != "COCO_classification")
    fault("its labels are of type '" + type.substr(0, 80) +
          "', but only COCO_classification (one class per image) is supported");
  if (!schema.label_key.empty()) fault("two columns hold labels (\"annotation_type\")");
  const json* categories = member_of(*properties, "categories");
  if (categories == nullptr) fault("the label column '" + name + "' lists no \"categories\"");
  schema.label_key = name;
  read_categories(*categories, schema);
}

// Parses the list line by line, and checks that no id appears twice.
class LineReader {
 public:
  LineReader(const ListSchema& schema, ListedImages& images) : schema_(schema), images_(images) {}

  void read(std::string_view text, int line) {
    const json row = parse_json(text, RepeatedKeys::kRefused);
    if (!row.is_object()) fault("is " + json_kind(row) + " instead of an object");
    Sample item;
    read_image(row, item);
    read_label(row, item);
    item.id = read_id(row, line);
    if (is_repeated(item)) return;
    if (item.size && !is_plausible(*item.size)) {
      images_.implausible_lines.push_back(line);
      item.size.reset();
    }
    images_.samples.push_back(item);
    images_.lines.push_back(line);
  }

 private:
  // Whether an earlier line has the image. It must have the same label.
  bool is_repeated(const Sample& item) {
    const auto [found, is_new] =
        images_by_name_.emplace(normal_name(item.file_name), images_.samples.size());
    if (is_new) return false;
    const auto shown = [&](int label) {
      if (label < 0) return std::string("no class");
      return "the class '" + excerpt(schema_.classes[static_cast<std::size_t>(label)]) + "'";
    };
    if (const int earlier = images_.samples.label(found->second); item.label != earlier)
      fault("the image '" + found->first + "' has " + shown(item.label) + ", but " +
            shown(earlier) + " in line " + std::to_string(images_.lines[found->second]));
    ++images_.num_repeated;
    return true;
  }

  void read_image(const json& row, Sample& item) const {
    const json* info = member_of(row, schema_.image_key);
    if (info == nullptr) fault("has no \"" + schema_.image_key + "\"");
    if (!info->is_object())
      fault("\"" + schema_.image_key + "\" is " + json_kind(*info) + " instead of an object");
    item.file_name = text_at(*info, "file_name");
    if (const std::string clause = fault_of_relative_path(item.file_name); !clause.empty())
      fault(clause);
    if (member_of(*info, "width") == nullptr || member_of(*info, "height") == nullptr) return;
    item.size = ImageSize{.height = side(*info, "height"), .width = side(*info, "width")};
  }

  static int side(const json& info, const std::string& key) {
    const std::int64_t pixels = integer_at(info, key);
    if (pixels < 1 || pixels > INT32_MAX)
      fault("\"" + key + "\" " + std::to_string(pixels) + " is not a valid image size");
    return static_cast<int>(pixels);
  }

  void read_label(const json& row, Sample& item) const {
    if (schema_.label_key.empty() || member_of(row, schema_.label_key) == nullptr) return;
    const std::string& name = text_at(row, schema_.label_key);
    if (name.empty()) return;
    const auto found = schema_.ids.find(name);
    if (found == schema_.ids.end())
      fault("the label " + quoted_beginning(name) + " is not one of the schema's categories");
    item.label = found->second;
  }

  std::int64_t read_id(const json& row, int line) {
    if (member_of(row, "id") == nullptr) return static_cast<std::int64_t>(images_.samples.size());
    const std::int64_t id = integer_at(row, "id");
    const auto [place, is_new] = lines_by_id_.emplace(id, line);
    if (is_new) return id;
    fault("the id " + std::to_string(id) + " already appears in line " +
          std::to_string(place->second));
  }

  const ListSchema& schema_;
  ListedImages& images_;
  std::unordered_map<std::int64_t, int> lines_by_id_;
  std::unordered_map<std::string, std::size_t> images_by_name_;
};

constexpr std::size_t kMaxSampleBytes = 64 << 20;

using Json = nlohmann::ordered_json;

// Formats `value` on one line, with spaces after commas and colons, as Python's json.dumps does.
std::string spaced(const Json& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', true);
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += quote_json(key) + ": ";
    text += spaced(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

constexpr std::uint64_t kMaxMetaBytes = 1 << 16;
constexpr std::uint64_t kMaxSchemaBytes = 64ULL << 20;

std::string read_part(const DatasetContext& context, const ListedFiles& files,
                      const std::string& file, std::uint64_t limit) {
  try {
    return files.read_text(file, limit);
  } catch (const std::system_error& fault) {
    context.fail(file + " cannot be read: " + fault.code().message() + kRewrite);
  } catch (const std::length_error&) {
    context.fail(file + " is larger than the limit of " + std::to_string(limit) + " bytes" +
                 kRewrite);
  }
}

using Entries = std::map<std::string, std::string>;

constexpr std::array kMetaKeys = {"type", "image_list", "schema", "samples"};

Entries entries_of_json(const std::string& text) {
  const nlohmann::json document = parse_json(text, RepeatedKeys::kRefused);
  Entries entries;
  for (const char* key : kMetaKeys)
    if (document.contains(key)) entries.emplace(key, text_at(document, key));
  return entries;
}

Entries entries_of_yaml(const std::string& text) {
  try {
    const YAML::Node document = YAML::Load(text);
    if (!document.IsMap()) throw JsonFault(1, "is not a mapping");
    Entries entries;
    for (const char* key : kMetaKeys) {
      const YAML::Node value = document[key];
      if (!value.IsDefined()) continue;
      if (!value.IsScalar())
        throw JsonFault(value.Mark().line + 1, std::string(key) + " is not a string");
      entries.emplace(key, value.Scalar());
    }
    return entries;
  } catch (const YAML::Exception& fault) {
    throw JsonFault(fault.mark.line + 1, "is not valid YAML: " + fault.msg);
  }
}

Entries read_meta(const DatasetContext& context, const ListedFiles& files) {
  const std::string file(kMetaName);
  const std::string text = read_part(context, files, file, kMaxMetaBytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  try {
    if (first == std::string::npos) throw JsonFault(1, "is empty");
    return text[first] == '{' ? entries_of_json(text) : entries_of_yaml(text);
  } catch (const JsonFault& fault) {
    fail_at(context, file, fault);
  }
}

// The entries of `_meta.yaml`, or their defaults.
Entries directory_entries(const DatasetContext& context, const ListedFiles& files) {
  Entries entries = files.holds(kMetaName) ? read_meta(context, files) : Entries();
  entries.insert({{"type", "ImageDirectory"},
                  {"image_list", std::string(kListName)},
                  {"schema", std::string(kSchemaName)},
                  {"samples", std::string(kSamplesName)}});
  for (const std::string key : kMetaKeys) {
    const std::string& value = entries[key];
    if (const std::string fault = fault_of_relative_path(value); !fault.empty())
      context.fail("_meta.yaml: " + key + ": " + fault + kRewrite);
    if (key == "type" && value != "ImageDirectory")
      context.fail("it is of type '" + value.substr(0, 80) +
                   "' (according to its _meta.yaml) instead of ImageDirectory. Give a folder of "
                   "images, or an ImageDirectory written by 'kiln convert'.");
  }
  return entries;
}

}  // namespace

ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context) {
  try {
    const json document = parse_json(bytes, RepeatedKeys::kRefused);
    const json* columns = member_of(document, "columnAttributes");
    if (columns == nullptr || !columns->is_array()) fault("has no list \"columnAttributes\"");
    ListSchema schema;
    bool has_image = false;
    for (const json& column : *columns) read_column(column, schema, has_image);
    if (!has_image) fault("has no column of images (\"properties\" with \"image_ref\")");
    schema.note = name_unused_ids(schema.classes, file);
    return schema;
  } catch (const JsonFault& found) {
    fail_at(context, file, found);
  }
}

ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context) {
  ListedImages images;
  LineReader reader(schema, images);
  for (int line = 1; !bytes.empty(); ++line) {
    const std::string_view text = take_line(bytes);
    try {
      if (text.size() > kMaxLineBytes)
        fault("has " + std::to_string(text.size()) + " bytes, more than the limit of 1 MiB");
      if (text.find_first_not_of(" \t\r") == text.npos) continue;
      reader.read(text, line);
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
  const auto column = [](const char* name, const char* type, bool is_feature,
                         const char* element) -> Json {
    return {{"name", name},
            {"type", type},
            {"isFeature", is_feature},
            {"elementType", {{"typeName", element}, {"isNullable", false}}}};
  };
  Json columns = Json::array();
  columns.push_back(column("image", "Bytes", true, "bytes"));
  columns.back()["properties"] = {{"mime_type", "image/png"}, {"image_ref", "image_info"}};
  columns.push_back(column("id", "Numeric", false, "int64"));
  Json categories = Json::array();
  std::map<std::string_view, int> counts;
  for (const std::string& name : classes) ++counts[name];
  for (std::size_t id = 0; id < classes.size(); ++id)
    if (counts[classes[id]] == 1)  // ids without a class share a name, which readers know
      categories.push_back({{"id", id}, {"name", classes[id]}});
  if (!classes.empty()) {
    columns.push_back(column("category", "String", false, "str"));
    columns.back()["properties"] = {{"annotation_type", "COCO_classification"},
                                    {"categories", std::move(categories)}};
  }
  const Json schema = {{"columnAttributes", std::move(columns)}};
  return schema.dump(2, ' ', /*ensure_ascii=*/true);
}

std::string list_line(const Sample& item, std::string_view file_name, const std::string* label) {
  std::string line = R"({"image_info": {"file_name": )" + quote_json(file_name);
  if (item.size)
    line += ", \"width\": " + std::to_string(item.size->width) +
            ", \"height\": " + std::to_string(item.size->height);
  line += "}";
  if (label != nullptr) line += ", \"category\": " + quote_json(*label);
  return line + ", \"id\": " + std::to_string(item.id) + "}\n";
}

std::string samples_text(const Dataset& set) {
  std::array<std::string, kNumSamples> images;
  for (std::size_t i = 0; i < std::min(kNumSamples, set.samples.size()); ++i) {
    try {
      read_first_bytes(set, i, kMaxSampleBytes + 1, images[i]);
      // Samples are published, and a link may lead to another kind of file.
      if (images[i].size() <= kMaxSampleBytes) decode_image(images[i], Exif::kIgnore);
    } catch (const std::exception&) {
      images[i].clear();  // samples are only a preview; the loader reports bad images
    }
  }
  return samples_text(set, images);
}

std::string samples_text(const Dataset& set, const std::array<std::string, kNumSamples>& images) {
  Json samples = Json::array();
  for (std::size_t i = 0; i < std::min(kNumSamples, set.samples.size()); ++i) {
    if (images[i].empty() || images[i].size() > kMaxSampleBytes) continue;
    const Sample item = set.samples[i];
    Json& sample = samples.emplace_back(Json{{"image", base64(images[i])}, {"id", item.id}});
    if (item.label >= 0) sample["category"] = set.label_text(item.label);
  }
  return samples.dump(2, ' ', /*ensure_ascii=*/true);
}

namespace {

// What an ImageDirectory of `count` images says about each: the lines of its list, which has
// others, too: blank ones, and repeats.
struct ImageLines {
  ImageLines(const Dataset& set, std::size_t count) : list(read_image_list(set)) {
    const DatasetContext context{.root = set.root, .name = set.name};
    schema = parse_schema(set.schema_json, std::string(kSchemaName), context);
    const ListedImages listed = parse_image_list(list, set.list_name, schema, context);
    if (listed.lines.size() != count)
      set.fail(set.list_name + " was changed while it was read. Try again.");
    std::string_view rest = list;
    for (int line = 1; lines.size() < count; ++line)
      if (const std::string_view text = take_line(rest); line == listed.lines[lines.size()])
        lines.push_back(text);
  }

  const std::string list;
  ListSchema schema;
  std::vector<std::string_view> lines;
};

}  // namespace

std::string kept_list(const Dataset& set, const std::vector<bool>& keep) {
  const ImageLines images(set, keep.size());
  std::string text;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) (text += images.lines[i]) += '\n';
  return text;
}

std::string renamed_list(const Dataset& set, const std::vector<std::string>& names) {
  const ImageLines images(set, names.size());
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Json row = parse_ordered_json(images.lines[i]);
    Json& image = row[images.schema.image_key];
    image["file_name"] = names[i];
    for (const char* side : {"width", "height"}) image.erase(side);  // those before the change
    text += spaced(row) + "\n";
  }
  return text;
}

bool is_image_directory(const ListedFiles& files) {
  return files.holds(kMetaName) || files.holds(kListName);
}

std::vector<std::string> listed_files(const DatasetContext& context) {
  const ListedFiles folder(context);
  const std::string list = directory_entries(context, folder).at("image_list");
  const std::string bytes = read_part(context, folder, list, kMaxListBytes);
  const ListedImages listed = parse_image_list(bytes, list, ListSchema{}, context);
  return list_from(listed.samples, [](const Sample& item) { return std::string(item.file_name); });
}

Listing list_image_directory(const DatasetContext& context, const ListedFiles& files) {
  const Entries entries = directory_entries(context, files);
  const std::string &list = entries.at("image_list"), &schema_name = entries.at("schema");
  Listing listing;
  Dataset& set = listing.set;
  set.kind = Dataset::Kind::kImageDirectory;
  set.is_image_directory = true;
  set.list_name = list;
  set.schema_json = read_part(context, files, schema_name, kMaxSchemaBytes);
  ListSchema schema = parse_schema(set.schema_json, schema_name, context);
  ListedImages listed =
      parse_image_list(read_part(context, files, list, kMaxListBytes), list, schema, context);
  set.samples = std::move(listed.samples);
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string file(set.samples.file_name(i)), name = normal_name(file);
    if (name == kMetaName || name == list || name == schema_name || name == entries.at("samples"))
      context.fail(list + ", line " + std::to_string(listed.lines[i]) + ": the path '" + file +
                   "' is a metadata file of the directory, not an image. Remove the line.");
  }
  set.add_note(note_of_repeated(listed.num_repeated, list + ": ", "line", "lines"));
  find_listed_images(set, files, listed.lines, list, context);
  if (const auto& lines = listed.implausible_lines; !lines.empty())
    set.notes.push_back(list + " gives " + std::to_string(lines.size()) +
                        " images a size of more than " + std::to_string(kMaxImagePixels) +
                        " pixels (first in line " + std::to_string(lines.front()) +
                        "), which is ignored");
  set.add_note(std::move(schema.note));
  set.classes = std::move(schema.classes);
  return listing;
}

std::string read_image_list(const Dataset& set) {
  const DatasetContext context{.root = set.root, .name = set.name};
  if (set.archives.empty())
    return read_part(context, ListedFiles(context), set.list_name, kMaxListBytes);
  const ImageArchive& archive = set.archives.front();
  return with_archive_named(context, archive.name, kArchiveKind, [&] {
    const Listing listing = list_open_archive({archive.name, archive.file.duplicate()});
    return read_part(context, ListedFiles(listing, ""), set.list_name, kMaxListBytes);
  });
}

void find_listed_images(Dataset& set, const ListedFiles& files, const std::vector<int>& lines,
                        const std::string& list, const DatasetContext& context) {
  const ListFaults faults = files.find_images(set);
  if (faults.empty()) {
    LeftOut left_out;
    for (const std::string& name : files.unlisted(set.samples))
      left_out.add(LeftOut::Reason::kUnlisted, name);
    std::ranges::move(left_out.notes(), std::back_inserter(set.notes));
    return;
  }
  std::vector<std::string> named;
  for (const auto& [i, fault] : faults)
    named.push_back("'" + std::string(set.samples.file_name(i)) + "' " + fault +
                    (lines.empty() ? "" : " (line " + std::to_string(lines[i]) + ")"));
  context.fail(list + " lists " + std::to_string(set.samples.size()) + " images, but " +
               std::to_string(faults.size()) +
               " of them cannot be used: " + few_of(std::move(named), kMostNamed) +
               ". Restore the files, or remove their lines from the list.");
}

}  // namespace kiln
