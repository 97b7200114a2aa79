// Writes a model directory so that readers never see a partial one.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/output_folder.h"
#include "base/text.h"
#include "store/model_directory.h"
#include "store/model_spec.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

bool is_known_name(std::string_view name) {
  const auto holds = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return name == kMetaFile || holds(kOwnFiles) || holds(kDesignerFiles);
}

bool is_model_directory(const fs::path& meta_path) {
  try {
    return read_directory_meta(meta_path).type == "ModelDirectory";
  } catch (const Error&) {
    return false;
  }
}

// The names that do not belong to a model directory, sorted. Without a valid `_meta.yaml`, no name
// belongs to one.
std::vector<std::string> foreign_names(const fs::path& folder) {
  std::vector<std::string> known, foreign;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_ignored_name(name)) continue;
    const bool is_file = entry.is_symlink() || entry.is_regular_file();
    (is_file && is_known_name(name) ? known : foreign).push_back(name);
  }
  if (!known.empty() && !is_model_directory(folder / kMetaFile))
    foreign.insert(foreign.end(), known.begin(), known.end());
  std::sort(foreign.begin(), foreign.end());
  return foreign;
}

void refuse_foreign_names(const fs::path& folder) {
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> foreign = foreign_names(folder);
  if (foreign.empty()) return;
  fail_output_folder(folder, "contains other files (" + quoted_names(foreign, kShown) + ")",
                     "Choose an empty folder, or one with a complete earlier model.");
}

}  // namespace

OutputFolder prepare_model_output(const fs::path& path) {
  OutputFolder folder(path);
  try {
    refuse_foreign_names(path);
    remove_leftovers(path);
  } catch (const fs::filesystem_error& fault) {
    fail_output_folder(path, "cannot be listed (" + fault.code().message() + ")",
                       "Fix its permissions.");
  }
  DurableFile probe(path / "probe");  // never committed, so only a temporary file is created
  probe.write("probe");
  probe.finish();
  return folder;
}

void write_directory(const OutputFolder& folder, const std::vector<OutputFile>& files) {
  remove_leftovers(folder.path());
  std::vector<const OutputFile*> ordered;
  ordered.reserve(files.size());
  for (const OutputFile& file : files) ordered.push_back(&file);
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const OutputFile* file) { return file->name != kMetaFile; });
  std::vector<DurableFile> complete;
  complete.reserve(ordered.size());
  for (const OutputFile* file : ordered) {
    complete.emplace_back(folder.path() / file->name);
    complete.back().write(file->bytes);
    complete.back().finish();
  }
  // Files that only the earlier model has would contradict the new one.
  std::vector<fs::path> stale;
  for (const std::string_view name : kOwnFiles) {
    if (std::none_of(files.begin(), files.end(),
                     [name](const OutputFile& file) { return file.name == name; }))
      stale.emplace_back(name);
  }
  folder.replace(std::move(complete), stale);
}

void write_directory(const fs::path& folder, const std::vector<OutputFile>& files) {
  write_directory(OutputFolder(folder), files);
}

}  // namespace kiln
