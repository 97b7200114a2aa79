// An ImageDirectory: `_meta.yaml` names the list and the schema; any fault in them is an error, and
// the folder is never read as another kind.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/system.h"
#include "base/text_file.h"
#include "data/dataset/folder_entries.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxMetaBytes = 1 << 16;
constexpr std::uint64_t kMaxSchemaBytes = 64ULL << 20;
constexpr std::uint64_t kMaxListBytes = 2ULL << 30;

namespace fs = std::filesystem;

const char* const kRewrite =
    ". Write the ImageDirectory again, for example with 'kiln convert' from the images.";

std::string read_part(const DatasetContext& context, const std::string& file, std::uint64_t limit) {
  try {
    return read_text(context.root / file, limit);
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

Entries read_meta(const DatasetContext& context) {
  const std::string file(kMetaName);
  const std::string text = read_part(context, file, kMaxMetaBytes);
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

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;
constexpr std::size_t kWorthListing = 32;  // files; in smaller folders, each is checked on its own

// Says why `path` is not a regular file; empty if it is one.
std::string fault_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? "is missing" : std::string("cannot be read: ") + std::strerror(errno);
  }
  return S_ISREG(info.st_mode) ? "" : "is not a file";
}

bool is_file_in(const FolderEntries& entries, std::string_view name) {
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const FolderEntry& entry, std::string_view n) { return entry.name < n; });
  return found != entries.end() && found->name == name && found->kind == FolderEntry::Kind::kFile;
}

// The samples in one folder, by position.
struct ListedFolder {
  std::string name;  // relative to the root, with a trailing slash; empty: the root
  std::vector<std::uint32_t> samples;
};

std::vector<ListedFolder> group_by_folder(const SampleTable& samples) {
  std::map<std::string_view, std::vector<std::uint32_t>> groups;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::string_view file = samples.file_name(i);
    groups[file.substr(0, file.rfind('/') + 1)].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<ListedFolder> folders;
  folders.reserve(groups.size());
  for (auto& [name, positions] : groups)
    folders.push_back({std::string(name), std::move(positions)});
  return folders;
}

using Faults = std::map<std::uint32_t, std::string>;

Faults faults_in(const ListedFolder& folder, const SampleTable& samples, const fs::path& root) {
  FolderEntries entries;
  if (folder.samples.size() >= kWorthListing) {
    try {
      entries = FolderEntries(root / folder.name);
    } catch (const fs::filesystem_error&) {  // each of its files is then checked on its own
    }
  }
  Faults faults;
  for (const std::uint32_t i : folder.samples) {
    const std::string_view file = samples.file_name(i);
    if (is_file_in(entries, file.substr(folder.name.size()))) continue;
    if (std::string fault = fault_of(root / file); !fault.empty())
      faults.emplace(i, std::move(fault));
  }
  return faults;
}

}  // namespace

bool is_image_directory(const fs::path& root) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(root / kMetaName, ignored)) ||
         fs::exists(fs::symlink_status(root / kListName, ignored));
}

DirectoryNames read_directory_names(const DatasetContext& context) {
  Entries meta;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(context.root / kMetaName, ignored))) meta = read_meta(context);
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
  const DirectoryNames names = read_directory_names(context);
  const std::string bytes = read_part(context, names.list, kMaxListBytes);
  std::vector<std::string> files;
  const ListedImages listed = parse_image_list(bytes, names.list, ListSchema{}, context);
  for (const Sample& item : listed.samples) files.emplace_back(item.file_name);
  return files;
}

Dataset read_image_directory(const DatasetContext& context) {
  const DirectoryNames names = read_directory_names(context);
  Dataset set;
  set.kind = Dataset::Kind::kImageDirectory;
  set.root = context.root;
  set.list_name = names.list;
  for (const std::string& file :
       {std::string(), std::string(kMetaName), names.list, names.schema, names.samples}) {
    set.stamps.push_back(context.stamp(file));
  }
  set.schema_json = read_part(context, names.schema, kMaxSchemaBytes);
  const ListSchema schema = parse_schema(set.schema_json, names.schema, context);
  const std::string list = read_part(context, names.list, kMaxListBytes);
  ListedImages listed = parse_image_list(list, names.list, schema, context);
  set.samples = std::move(listed.samples);
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const std::string file(set.samples.file_name(i));
    const fs::path normal = fs::path(file).lexically_normal();
    for (const std::string& own :
         {std::string(kMetaName), names.list, names.schema, names.samples}) {
      if (normal != own) continue;
      context.fail(names.list + ", line " + std::to_string(listed.lines[i]) + ": the path '" +
                   file + "' is a metadata file of the directory, not an image. Remove the line.");
    }
  }
  check_listed_files(set, listed.lines, names.list, context);
  if (const auto& lines = listed.implausible_lines; !lines.empty()) {
    set.notes.push_back(names.list + " gives " + std::to_string(lines.size()) +
                        " images a size of more than " + std::to_string(kMaxImagePixels) +
                        " pixels (first in line " + std::to_string(lines.front()) +
                        "), which is ignored");
  }
  set.classes = schema.classes;
  set.samples_json = samples_text(set);  // not the directory's own, which may be a link to any file
  return set;
}

void check_listed_files(Dataset& set, const std::vector<int>& lines, const std::string& list,
                        const DatasetContext& context) {
  const std::vector<ListedFolder> folders = group_by_folder(set.samples);
  std::vector<SourceStamp> stamps(folders.size());
  std::mutex mutex;
  Faults faults;
  in_parallel(folders.size(), kScanThreads, [&](std::size_t i) {
    stamps[i] = context.stamp(folders[i].name);
    Faults found = faults_in(folders[i], set.samples, context.root);
    const std::scoped_lock lock(mutex);
    faults.merge(found);
  });
  set.stamps.insert(set.stamps.end(), stamps.begin(), stamps.end());
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
