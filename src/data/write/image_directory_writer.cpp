#include "data/write/image_directory_writer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/output_folder.h"
#include "data/dataset/image_bytes.h"
#include "data/dataset/readers.h"
#include "data/image/image.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, const std::string& text) {
  throw Error(ErrorCode::kFailedToWriteOutputs, "Output " + quoted_path(folder) + ": " + text);
}

[[noreturn]] void fail_to_write(const fs::path& path, const std::error_code& fault) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "'" + path.string() + "' cannot be written: " + fault.message() +
                  ". Check its permissions or choose another output.");
}

// Whether `inner` is `outer` or lies below it; both resolved.
bool is_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

fs::path resolved(const fs::path& path) {
  fs::path full = fs::weakly_canonical(fs::absolute(path));
  return full.has_filename() ? full : full.parent_path();
}

bool is_ignored(const std::string& name) {
  return name.starts_with('.') || name == "lost+found";
}

// The contents of a folder: relative paths of its files, and its folders, deepest last. Links are
// not followed.
struct Contents {
  std::vector<fs::path> files, folders;
};

Contents contents_of(const fs::path& folder) {
  Contents contents;
  std::error_code fault;
  auto entry = fs::recursive_directory_iterator(folder, fault);
  if (fault) fail_to_write(folder, fault);
  for (; entry != fs::recursive_directory_iterator(); entry.increment(fault)) {
    if (fault) fail_to_write(folder, fault);
    const bool is_folder = fs::is_directory(entry->symlink_status());
    if (is_ignored(entry->path().filename().string())) {
      if (is_folder) entry.disable_recursion_pending();
      continue;
    }
    (is_folder ? contents.folders : contents.files)
        .push_back(entry->path().lexically_relative(folder));
  }
  return contents;
}

// The files of an earlier ImageDirectory (possibly incomplete) in `folder`; refuses everything
// else.
std::vector<fs::path> earlier_files(const fs::path& folder) {
  const Contents contents = contents_of(folder);
  if (contents.files.empty()) return {};
  const std::string advice = " Empty it or choose another output.";
  if (!is_image_directory(folder)) {
    refuse(folder, "it contains '" + contents.files.front().string() +
                       "', and is not an earlier ImageDirectory." + advice);
  }
  std::set<fs::path> known = {kMetaName, kListName, kSchemaName, kSamplesName};
  try {
    for (const std::string& file : listed_files({.root = folder, .name = "Earlier output"})) {
      known.insert(fs::path(file).lexically_normal());
    }
  } catch (const Error& fault) {
    refuse(folder, "it is not empty, and it is no valid ImageDirectory to replace (" +
                       fault.message() + ")." + advice);
  }
  for (const fs::path& file : contents.files) {
    if (known.contains(file)) continue;
    refuse(folder,
           "it is an ImageDirectory, but its list does not name '" + file.string() + "'." + advice);
  }
  return contents.files;
}

std::string output_name(const Dataset& set, std::size_t position) {
  const Sample& item = set.samples[position];
  if (set.kind == Dataset::Kind::kImageDirectory) return std::string(item.file_name);
  if (!set.labeled() || set.kind == Dataset::Kind::kCoco)
    return "image/" + std::string(item.file_name);
  return "image/" + std::to_string(item.label) + "_" + std::to_string(item.id) +
         fs::path(item.file_name).extension().string();
}

[[noreturn]] void fail_to_read(const Dataset& set, const std::string& file,
                               const std::string& why) {
  const DatasetContext context{.root = set.root, .name = set.name};
  context.fail("'" + file + "' cannot be used: " + why + ". Fix the file, or remove it.");
}

std::string read_list(const Dataset& set) {
  try {
    return read_file(set.root / set.list_name);
  } catch (const std::system_error& fault) {
    fail_to_read(set, set.list_name, fault.code().message());
  }
}

std::string read_image(const Dataset& set, std::size_t i) {
  try {
    std::string bytes;
    read_image_bytes(set, i, bytes);
    return bytes;
  } catch (const ImageFault& fault) {
    fail_to_read(set, std::string(set.samples.file_name(i)), fault.what());
  }
}

// The lines of the images with keep[i]; lines without anything belong to no image.
std::string kept_lines(std::string_view list, const std::vector<bool>& keep) {
  std::string text;
  for (std::size_t i = 0; i < keep.size() && !list.empty();) {
    const std::size_t end = std::min(list.find('\n'), list.size());
    const std::string_view line = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (keep[i++]) (text += line) += '\n';
  }
  return text;
}

std::string list_text(const Dataset& set) {
  if (!set.list_name.empty()) return read_list(set);
  std::string text;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const int label = set.samples[i].label;
    text +=
        list_line(set.samples[i], output_name(set, i), label < 0 ? nullptr : &set.classes[label]);
  }
  return text;
}

DurableFile complete_file(const fs::path& path, std::string_view bytes) {
  DurableFile file(path);
  file.write(bytes);
  file.finish();
  return file;
}

std::vector<DurableFile> complete_images(const Dataset& set, const fs::path& folder,
                                         std::set<fs::path>& names) {
  std::vector<DurableFile> files;
  fs::path last_parent;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const fs::path name = fs::path(output_name(set, i)).lexically_normal();
    if (!names.insert(name).second) continue;  // listed twice
    const fs::path path = folder / name;
    if (path.parent_path() != last_parent) make_folders(last_parent = path.parent_path());
    files.push_back(complete_file(path, read_image(set, i)));
  }
  return files;
}

void remove_empty_folders(const fs::path& folder) {
  const Contents contents = contents_of(folder);
  for (auto inner = contents.folders.rbegin(); inner != contents.folders.rend(); ++inner) {
    std::error_code not_empty;
    fs::remove(folder / *inner, not_empty);
  }
}

}  // namespace

void prepare_output_folder(const fs::path& folder, const fs::path& input) {
  const fs::path output_place = resolved(folder);
  const fs::path input_place = resolved(input);
  if (is_within(output_place, input_place) || is_within(input_place, output_place)) {
    refuse(folder, "it is the input '" + input.string() +
                       "', or one is inside the other. Choose an output outside of it.");
  }
  std::error_code fault;
  if (fs::exists(folder, fault) && !fs::is_directory(folder, fault)) {
    refuse(folder, "it is a file. Choose another output.");
  }
  make_folders(folder);
  { DurableFile probe(folder / "probe"); }
}

void prepare_image_output(const fs::path& folder, const fs::path& input) {
  prepare_output_folder(folder, input);
  const OutputFolder locked(folder);
  earlier_files(folder);
  remove_leftovers(folder);
  for (const fs::path& inner : contents_of(folder).folders) remove_leftovers(folder / inner);
}

ImageDirectoryOutput::ImageDirectoryOutput(const Dataset& set, const fs::path& folder)
    : locked_(folder) {
  complete(set, list_text(set));
}

ImageDirectoryOutput::ImageDirectoryOutput(const Dataset& set, const std::vector<bool>& keep,
                                           const fs::path& folder)
    : locked_(folder) {
  Dataset part = part_of(set, keep);
  part.samples_json = samples_text(part);
  complete(part, set.list_name.empty() ? list_text(part) : kept_lines(read_list(set), keep));
}

void ImageDirectoryOutput::complete(const Dataset& set, const std::string& list) {
  const fs::path& folder = locked_.path();
  const std::vector<fs::path> earlier = earlier_files(folder);
  std::set<fs::path> names = {kMetaName, kListName, kSchemaName, kSamplesName};
  files_ = complete_images(set, folder, names);
  files_.push_back(complete_file(folder / kListName, list));
  files_.push_back(complete_file(folder / kSchemaName, set.schema_json));
  files_.push_back(complete_file(folder / kSamplesName, set.samples_json));
  files_.push_back(complete_file(folder / kMetaName, meta_text()));
  std::copy_if(earlier.begin(), earlier.end(), std::back_inserter(stale_),
               [&](const fs::path& file) { return !names.contains(file); });
}

void ImageDirectoryOutput::put_in_place() {
  locked_.replace(std::move(files_), stale_);
  remove_empty_folders(locked_.path());
}

void write_image_directory(const Dataset& set, const fs::path& folder) {
  ImageDirectoryOutput(set, folder).put_in_place();
}

}  // namespace kiln
