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
#include <unordered_set>

#include "base/files.h"
#include "base/json.h"
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
constexpr std::int64_t kMaxClassId = 99'999;

// About the contents of a line or column. Callers add the file and the line.
[[noreturn]] void fault(const std::string& clause) {
  throw JsonFault(0, clause);
}

const std::string& text_of(const json& value, const std::string& what) {
  if (!value.is_string()) fault(what + " is " + json_kind(value) + " instead of a string");
  return value.get_ref<const std::string&>();
}

std::int64_t integer_of(const json& value, const std::string& what) {
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || too_large)
    fault(what + " is " + (value.is_number() ? value.dump() : json_kind(value)) +
          " instead of an integer");
  return value.get<std::int64_t>();
}

void read_categories(const json& categories, ListSchema& schema) {
  if (!categories.is_array() || categories.empty())
    fault("\"categories\" of the label column is not a list of classes");
  std::unordered_set<std::int64_t> ids;
  std::unordered_set<std::string> names;
  for (const json& category : categories) {
    if (!category.is_object() || !member_of(category, "id") || !member_of(category, "name"))
      fault("a category is not an object with \"id\" and \"name\"");
    const std::int64_t id = integer_of(category["id"], "the id of a category");
    const std::string& name = text_of(category["name"], "the name of a category");
    if (id < 0 || id > kMaxClassId)
      fault("category id " + std::to_string(id) + " is not between 0 and " +
            std::to_string(kMaxClassId));
    if (name.empty()) fault("category " + std::to_string(id) + " has an empty name");
    if (!ids.insert(id).second) fault("category id " + std::to_string(id) + " appears twice");
    if (!names.insert(name).second) fault("category '" + name + "' appears twice");
    if (schema.classes.size() <= static_cast<std::size_t>(id)) {
      schema.classes.resize(id + 1);
      schema.is_category.resize(id + 1, false);
    }
    schema.classes[id] = name;
    schema.is_category[id] = true;
  }
  name_unused_ids(schema.is_category, schema.classes);
}

void read_column(const json& column, ListSchema& schema, bool& has_image) {
  if (!column.is_object() || !member_of(column, "name")) fault("a column has no \"name\"");
  const std::string& name = text_of(column["name"], "the name of a column");
  const json* properties = member_of(column, "properties");
  if (properties == nullptr) return;
  if (!properties->is_object()) fault("\"properties\" of column '" + name + "' is not an object");
  if (const json* reference = member_of(*properties, "image_ref")) {
    if (has_image) fault("two columns hold images (\"image_ref\")");
    schema.image_key = text_of(*reference, "\"image_ref\"");
    has_image = true;
  }
  const json* annotation = member_of(*properties, "annotation_type");
  if (annotation == nullptr) return;
  const std::string& type = text_of(*annotation, "\"annotation_type\"");
  if (type != "COCO_classification")
    fault("its labels are of type '" + type.substr(0, 80) +
          "', but only COCO_classification (one class per image) is supported");
  if (!schema.label_key.empty()) fault("two columns hold labels (\"annotation_type\")");
  const json* categories = member_of(*properties, "categories");
  if (categories == nullptr) fault("the label column '" + name + "' lists no \"categories\"");
  schema.label_key = name;
  read_categories(*categories, schema);
}

ListSchema schema_of(const json& document) {
  if (!document.is_object() || !member_of(document, "columnAttributes") ||
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
    const json row = parse_json(text, RepeatedKeys::kRefused);
    if (!row.is_object()) fault("is " + json_kind(row) + " instead of an object");
    Sample item;
    read_image(row, item);
    read_label(row, item);
    item.id = read_id(row, line, static_cast<std::int64_t>(images.samples.size()));
    if (is_repeated(item, images)) return;
    if (item.size && !is_plausible(*item.size)) {
      images.implausible_lines.push_back(line);
      item.size.reset();
    }
    images.samples.push_back(item);
    images.lines.push_back(line);
  }

 private:
  // Whether an earlier line has the image. It must have the same label.
  bool is_repeated(const Sample& item, ListedImages& images) {
    const auto [found, is_new] =
        images_by_name_.emplace(normal_name(item.file_name), images.samples.size());
    if (is_new) return false;
    const auto shown = [&](int label) {
      if (label < 0) return std::string("no class");
      return "the class '" + excerpt(schema_.classes[static_cast<std::size_t>(label)]) + "'";
    };
    if (const int earlier = images.samples.label(found->second); item.label != earlier)
      fault("the image '" + found->first + "' has " + shown(item.label) + ", but " +
            shown(earlier) + " in line " + std::to_string(images.lines[found->second]));
    ++images.num_repeated;
    return true;
  }

  void read_image(const json& row, Sample& item) const {
    const json* info = member_of(row, schema_.image_key);
    if (info == nullptr) fault("has no \"" + schema_.image_key + "\"");
    if (!info->is_object())
      fault("\"" + schema_.image_key + "\" is " + json_kind(*info) + " instead of an object");
    const json* path = member_of(*info, "file_name");
    if (path == nullptr) fault("has no \"file_name\"");
    item.file_name = text_of(*path, "\"file_name\"");
    const std::string path_fault = fault_of_relative_path(item.file_name);
    if (!path_fault.empty()) fault(path_fault);
    const json* width = member_of(*info, "width");
    const json* height = member_of(*info, "height");
    if (width == nullptr || height == nullptr) return;
    item.size =
        ImageSize{.height = side(*height, "\"height\""), .width = side(*width, "\"width\"")};
  }

  static int side(const json& value, const std::string& what) {
    const std::int64_t pixels = integer_of(value, what);
    if (pixels < 1 || pixels > INT32_MAX)
      fault(what + " " + std::to_string(pixels) + " is not a valid image size");
    return static_cast<int>(pixels);
  }

  void read_label(const json& row, Sample& item) const {
    if (schema_.label_key.empty()) return;
    const json* label = member_of(row, schema_.label_key);
    if (label == nullptr) return;
    const std::string& name = text_of(*label, "\"" + schema_.label_key + "\"");
    if (name.empty()) return;
    const auto found = ids_by_class_.find(name);
    if (found == ids_by_class_.end())
      fault("the label " + quoted_beginning(name) + " is not one of the schema's categories");
    item.label = static_cast<int>(found->second);
  }

  std::int64_t read_id(const json& row, int line, std::int64_t running_number) {
    const json* value = member_of(row, "id");
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
constexpr std::uint64_t kMaxListBytes = 2ULL << 30;

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
  for (const char* key : kMetaKeys) {
    const auto found = document.find(key);
    if (found == document.end()) continue;
    if (!found->is_string()) throw JsonFault(1, std::string(key) + " is " + json_kind(*found));
    entries.emplace(key, found->get<std::string>());
  }
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
    const std::string place = fault.line() > 0 ? ", line " + std::to_string(fault.line()) : "";
    context.fail(file + place + ": " + fault.what() + kRewrite);
  }
}

std::string name_in(const Entries& meta, const std::string& key, std::string_view standard,
                    const DatasetContext& context) {
  const auto found = meta.find(key);
  if (found == meta.end()) return std::string(standard);
  const std::string fault = fault_of_relative_path(found->second);
  if (!fault.empty()) context.fail("_meta.yaml: " + key + ": " + fault + kRewrite);
  return found->second;
}

constexpr std::size_t kMaxNamed = 10;

// The file names in `_meta.yaml`, or their defaults.
struct DirectoryNames {
  std::string list, schema, samples;
};

DirectoryNames read_directory_names(const DatasetContext& context, const ListedFiles& files) {
  Entries meta;
  if (files.holds(kMetaName)) meta = read_meta(context, files);
  const std::string type = name_in(meta, "type", "ImageDirectory", context);
  if (type != "ImageDirectory")
    context.fail("it is of type '" + type.substr(0, 80) +
                 "' (according to its _meta.yaml) instead of ImageDirectory. Give a folder of "
                 "images, or an ImageDirectory written by 'kiln convert'.");
  return {.list = name_in(meta, "image_list", kListName, context),
          .schema = name_in(meta, "schema", kSchemaName, context),
          .samples = name_in(meta, "samples", kSamplesName, context)};
}

}  // namespace

ListSchema parse_schema(std::string_view bytes, const std::string& file,
                        const DatasetContext& context) {
  try {
    return schema_of(parse_json(bytes, RepeatedKeys::kRefused));
  } catch (const JsonFault& found) {
    const std::string place = found.line() > 0 ? ", line " + std::to_string(found.line()) : "";
    context.fail(file + place + ": " + found.what() + kRewrite);
  }
}

ListedImages parse_image_list(std::string_view bytes, const std::string& file,
                              const ListSchema& schema, const DatasetContext& context) {
  ListedImages images;
  LineReader reader(schema);
  for (int line = 1; !bytes.empty(); ++line) {
    const std::string_view text = take_line(bytes);
    try {
      if (text.size() > kMaxLineBytes)
        fault("has " + std::to_string(text.size()) + " bytes, more than the limit of 1 MiB");
      if (text.find_first_not_of(" \t\r") == text.npos) continue;
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
  const auto type = [](const char* name) -> Json {
    return {{"typeName", name}, {"isNullable", false}};
  };
  Json columns = Json::array();
  columns.push_back({{"name", "image"},
                     {"type", "Bytes"},
                     {"isFeature", true},
                     {"elementType", type("bytes")},
                     {"properties", {{"mime_type", "image/png"}, {"image_ref", "image_info"}}}});
  columns.push_back(
      {{"name", "id"}, {"type", "Numeric"}, {"isFeature", false}, {"elementType", type("int64")}});
  Json categories = Json::array();
  std::map<std::string_view, int> counts;
  for (const std::string& name : classes) ++counts[name];
  for (std::size_t id = 0; id < classes.size(); ++id)
    if (counts[classes[id]] == 1)  // ids without a class share a name, which readers know
      categories.push_back({{"id", id}, {"name", classes[id]}});
  if (!classes.empty())
    columns.push_back(
        {{"name", "category"},
         {"type", "String"},
         {"isFeature", false},
         {"elementType", type("str")},
         {"properties",
          {{"annotation_type", "COCO_classification"}, {"categories", std::move(categories)}}}});
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

// The line of each of the `count` images of a list, which has others: blank ones, and repeats.
std::vector<std::string_view> lines_of_images(std::string_view bytes, const std::string& file,
                                              const ListSchema& schema, std::size_t count,
                                              const DatasetContext& context) {
  const ListedImages listed = parse_image_list(bytes, file, schema, context);
  if (listed.lines.size() != count)
    context.fail(file + " was changed while it was read. Try again.");
  std::vector<std::string_view> lines;
  for (int line = 1; lines.size() < count; ++line)
    if (const std::string_view text = take_line(bytes); line == listed.lines[lines.size()])
      lines.push_back(text);
  return lines;
}

}  // namespace

std::string kept_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                      const std::vector<bool>& keep, const DatasetContext& context) {
  const auto lines = lines_of_images(bytes, file, schema, keep.size(), context);
  std::string text;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) (text += lines[i]) += '\n';
  return text;
}

std::string renamed_list(std::string_view bytes, const std::string& file, const ListSchema& schema,
                         const std::vector<std::string>& names, const DatasetContext& context) {
  const auto lines = lines_of_images(bytes, file, schema, names.size(), context);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Json row = parse_ordered_json(lines[i]);
    Json& image = row[schema.image_key];
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
  const FolderFiles folder(context);
  const DirectoryNames names = read_directory_names(context, folder);
  const std::string bytes = read_part(context, folder, names.list, kMaxListBytes);
  std::vector<std::string> files;
  const ListedImages listed = parse_image_list(bytes, names.list, ListSchema{}, context);
  for (const Sample& item : listed.samples) files.emplace_back(item.file_name);
  return files;
}

Dataset read_image_directory(const DatasetContext& context, const ListedFiles& files) {
  const DirectoryNames names = read_directory_names(context, files);
  Dataset set;
  set.kind = Dataset::Kind::kImageDirectory;
  set.is_image_directory = true;
  set.root = context.root;
  set.list_name = names.list;
  const std::array own_files = {std::string(kMetaName), names.list, names.schema, names.samples};
  set.schema_json = read_part(context, files, names.schema, kMaxSchemaBytes);
  const ListSchema schema = parse_schema(set.schema_json, names.schema, context);
  const std::string list = read_part(context, files, names.list, kMaxListBytes);
  ListedImages listed = parse_image_list(list, names.list, schema, context);
  set.samples = std::move(listed.samples);
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string file(set.samples.file_name(i));
    if (std::ranges::count(own_files, normal_name(file)) > 0)
      context.fail(names.list + ", line " + std::to_string(listed.lines[i]) + ": the path '" +
                   file + "' is a metadata file of the directory, not an image. Remove the line.");
  }
  set.classes = schema.classes;
  if (listed.num_repeated > 0)
    set.notes.push_back(note_of_repeated(listed.num_repeated, names.list + ": ", "line", "lines"));
  find_listed_images(set, files, listed.lines, names.list, context);
  if (const auto& lines = listed.implausible_lines; !lines.empty())
    set.notes.push_back(names.list + " gives " + std::to_string(lines.size()) +
                        " images a size of more than " + std::to_string(kMaxImagePixels) +
                        " pixels (first in line " + std::to_string(lines.front()) +
                        "), which is ignored");
  if (std::string note = note_of_unused_ids(schema.is_category, set.classes, names.schema);
      !note.empty())
    set.notes.push_back(std::move(note));
  return set;
}

std::string read_image_list(const Dataset& set) {
  const DatasetContext context{.root = set.root, .name = set.name};
  if (set.archives.empty())
    return read_part(context, FolderFiles(context), set.list_name, kMaxListBytes);
  const ImageArchive& archive = set.archives.front();
  return with_archive_named(context, archive.name, "archive", [&] {
    const Listing listing = list_open_archive(archive.file.duplicate());
    return read_part(context, ArchiveFiles(listing, "", archive.name), set.list_name,
                     kMaxListBytes);
  });
}

void find_listed_images(Dataset& set, const ListedFiles& files, const std::vector<int>& lines,
                        const std::string& list, const DatasetContext& context) {
  const ListFaults faults = files.find_images(set);
  if (faults.empty()) {
    std::vector<std::string> unlisted;
    files.for_each_unlisted(set, [&](const std::string& name) { unlisted.push_back(name); });
    std::ranges::sort(unlisted);
    LeftOut left_out;
    for (const std::string& name : unlisted) left_out.add(LeftOut::Reason::kUnlisted, name);
    std::ranges::move(left_out.notes(), std::back_inserter(set.notes));
    return;
  }
  std::string named;
  std::size_t num_named = 0;
  for (const auto& [i, fault] : faults) {
    if (++num_named > kMaxNamed) break;
    named += (named.empty() ? "'" : ", '") + std::string(set.samples.file_name(i)) + "' " + fault;
    if (!lines.empty()) named += " (line " + std::to_string(lines[i]) + ")";
  }
  if (faults.size() > kMaxNamed) named += ", …";
  context.fail(list + " lists " + std::to_string(set.samples.size()) + " images, but " +
               std::to_string(faults.size()) + " of them cannot be used: " + named +
               ". Restore the files, or remove their lines from the list.");
}

}  // namespace kiln
