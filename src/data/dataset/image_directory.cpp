// An ImageDirectory: `_meta.yaml` names the list and the schema; any fault in them is an error, and
// the folder is never read as another kind.
#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/listed_files.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxMetaBytes = 1 << 16;
constexpr std::uint64_t kMaxSchemaBytes = 64ULL << 20;
constexpr std::uint64_t kMaxListBytes = 2ULL << 30;

const char* const kRewrite =
    ". Write the ImageDirectory again, for example with 'kiln convert' from the images.";

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

using Entries = std::vector<std::pair<std::string, std::string>>;

constexpr std::array kMetaKeys = {"type", "image_list", "schema", "samples"};

Entries entries_of_json(const std::string& text) {
  const nlohmann::json document = parse_json(text);
  Entries entries;
  for (const char* key : kMetaKeys) {
    const auto found = document.find(key);
    if (found == document.end()) continue;
    if (!found->is_string()) throw JsonFault(1, std::string(key) + " is " + json_kind(*found));
    entries.emplace_back(key, found->get<std::string>());
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
      entries.emplace_back(key, value.Scalar());
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
    context.fail(file + ", line " + std::to_string(fault.line()) + ": " + fault.what() + kRewrite);
  }
}

std::string name_in(const Entries& meta, const std::string& key, std::string_view standard,
                    const DatasetContext& context) {
  const auto found =
      std::find_if(meta.begin(), meta.end(), [&](const auto& entry) { return entry.first == key; });
  if (found == meta.end()) return std::string(standard);
  const std::string fault = fault_of_relative_path(found->second);
  if (!fault.empty()) context.fail("_meta.yaml: " + key + ": " + fault + kRewrite);
  return found->second;
}

constexpr std::size_t kMaxNamed = 10;

}  // namespace

bool is_image_directory(const ListedFiles& files) {
  return files.holds(kMetaName) || files.holds(kListName);
}

DirectoryNames read_directory_names(const DatasetContext& context, const ListedFiles& files) {
  Entries meta;
  if (files.holds(kMetaName)) meta = read_meta(context, files);
  const std::string type = name_in(meta, "type", "ImageDirectory", context);
  if (type != "ImageDirectory") {
    context.fail("it is of type '" + type.substr(0, 80) +
                 "' (according to its _meta.yaml) instead of ImageDirectory. Give a folder of "
                 "images, or an ImageDirectory written by 'kiln convert'.");
  }
  return {.list = name_in(meta, "image_list", kListName, context),
          .schema = name_in(meta, "schema", kSchemaName, context),
          .samples = name_in(meta, "samples", kSamplesName, context)};
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
  for (const std::string& file :
       {std::string(), std::string(kMetaName), names.list, names.schema, names.samples})
    if (std::optional<SourceStamp> stamp = files.stamp(file)) set.stamps.push_back(*stamp);
  set.schema_json = read_part(context, files, names.schema, kMaxSchemaBytes);
  const ListSchema schema = parse_schema(set.schema_json, names.schema, context);
  const std::string list = read_part(context, files, names.list, kMaxListBytes);
  ListedImages listed = parse_image_list(list, names.list, schema, context);
  set.samples = std::move(listed.samples);
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string file(set.samples.file_name(i));
    const std::string normal = normal_name(file);
    for (const std::string& own :
         {std::string(kMetaName), names.list, names.schema, names.samples}) {
      if (normal != own) continue;
      context.fail(names.list + ", line " + std::to_string(listed.lines[i]) + ": the path '" +
                   file + "' is a metadata file of the directory, not an image. Remove the line.");
    }
  }
  set.classes = schema.classes;
  find_listed_images(set, files, listed.lines, names.list, context);
  if (const auto& lines = listed.implausible_lines; !lines.empty()) {
    set.notes.push_back(names.list + " gives " + std::to_string(lines.size()) +
                        " images a size of more than " + std::to_string(kMaxImagePixels) +
                        " pixels (first in line " + std::to_string(lines.front()) +
                        "), which is ignored");
  }
  if (std::string note = note_of_unused_ids(schema.is_category, names.schema); !note.empty())
    set.notes.push_back(std::move(note));
  set.samples_json = samples_text(set);  // not the directory's own, which may be a link to any file
  return set;
}

std::optional<Dataset> read_by_list(const DatasetContext& context, const ListedFiles& files,
                                    std::vector<std::string>& notes) {
  if (is_image_directory(files)) return read_image_directory(context, files);
  return read_coco(context, files, notes);
}

std::string read_image_list(const Dataset& set) {
  const DatasetContext context{.root = set.root, .name = set.name};
  if (set.archives.empty())
    return read_part(context, FolderFiles(context), set.list_name, kMaxListBytes);
  const ImageArchive& archive = set.archives.front();
  return with_archive_named(context, archive.name, "archive", [&] {
    const ArchiveListing listing = list_open_archive(archive.file.duplicate());
    return read_part(context, ArchiveFiles(listing, "", archive.name), set.list_name,
                     kMaxListBytes);
  });
}

namespace {

void require_one_class_each(const Dataset& set, const std::vector<int>& lines,
                            const std::string& list, const DatasetContext& context) {
  std::unordered_map<std::string, std::size_t> known;
  known.reserve(set.samples.size());
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const auto [found, is_new] = known.emplace(normal_name(set.samples.file_name(i)), i);
    const int label = set.samples.label(i), earlier = set.samples.label(found->second);
    if (is_new || label == earlier || label < 0 || earlier < 0) continue;
    const auto entry = [&](std::size_t at, int of) {
      return "'" + excerpt(set.classes[static_cast<std::size_t>(of)]) + "'" +
             (lines.empty() ? "" : " (line " + std::to_string(lines[at]) + ")");
    };
    context.fail(list + " gives the image '" + printable(found->first) + "' two classes, " +
                 entry(found->second, earlier) + " and " + entry(i, label) +
                 ". Remove one of them.");
  }
}

}  // namespace

void find_listed_images(Dataset& set, const ListedFiles& files, const std::vector<int>& lines,
                        const std::string& list, const DatasetContext& context) {
  require_one_class_each(set, lines, list, context);
  const ListFaults faults = files.find_images(set);
  if (faults.empty()) return;
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
