// Fills the folder of a model directory so that readers never see a partial one.
#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "store/model_directory.h"
#include "store/model_spec.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& folder, const std::string& fault,
                       const std::string& remedy) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "The output folder '" + folder.string() + "' " + fault + ". " + remedy);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (fs::is_directory(folder)) return;
  if (!error) error = std::make_error_code(std::errc::not_a_directory);
  fail(folder, "cannot be created (" + system_words(error.value()) + ")",
       "Choose another output or fix its permissions.");
}

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

// Names that are not of a model directory, sorted. A killed run leaves parts of one without
// `_meta.yaml`, of which the specification is the first; other files of such names are somebody
// else's.
std::vector<std::string> foreign_names(const fs::path& folder) {
  std::vector<std::string> known, foreign;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_ignored_name(name)) continue;
    (is_known_name(name) && entry.is_regular_file() ? known : foreign).push_back(name);
  }
  const auto is_there = [&known](std::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  const bool ours =
      is_there(kMetaFile) ? is_model_directory(folder / kMetaFile) : is_there(kSpecFile);
  if (!ours) foreign.insert(foreign.end(), known.begin(), known.end());
  std::sort(foreign.begin(), foreign.end());
  return foreign;
}

void refuse_foreign_names(const fs::path& folder) {
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> foreign = foreign_names(folder);
  if (foreign.empty()) return;
  std::string shown;
  for (std::size_t i = 0; i < std::min(foreign.size(), kShown); ++i) {
    shown += (i == 0 ? "'" : ", '") + foreign[i] + "'";
  }
  if (foreign.size() > kShown) shown += " and " + std::to_string(foreign.size() - kShown) + " more";
  fail(folder, "contains other files (" + shown + ")",
       "Choose an empty folder, or one with an earlier model.");
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) {
    fail(path.parent_path(),
         "still has its '" + path.filename().string() + "' (" + error.message() + ")",
         "Fix its permissions or choose another output.");
  }
}

// Files of an earlier model that the new one lacks would contradict it.
void remove_stale(const fs::path& folder, const std::vector<OutputFile>& files) {
  for (const std::string_view name : kOwnFiles) {
    const bool is_new = std::any_of(files.begin(), files.end(),
                                    [name](const OutputFile& file) { return file.name == name; });
    if (!is_new) remove_file(folder / name);
  }
}

using Ordered = std::vector<const OutputFile*>;  // `_meta.yaml` last

void write_fresh(const fs::path& folder, const Ordered& files) {
  for (const OutputFile* file : files) write_file_durably(folder / file->name, file->bytes);
}

void replace_earlier(const fs::path& folder, const Ordered& ordered,
                     const std::vector<OutputFile>& files) {
  std::vector<DurableFile> complete;
  complete.reserve(ordered.size());
  for (const OutputFile* file : ordered) {
    complete.emplace_back(folder / file->name);
    complete.back().write(file->bytes);
    complete.back().finish();
  }
  remove_file(folder / kMetaFile);
  sync_folder(folder);
  remove_stale(folder, files);
  for (DurableFile& file : complete) file.commit();
}

}  // namespace

void prepare_model_output(const fs::path& folder) {
  make_folder(folder);
  try {
    refuse_foreign_names(folder);
    remove_leftovers(folder);
  } catch (const fs::filesystem_error& fault) {
    fail(folder, "cannot be listed (" + fault.code().message() + ")", "Fix its permissions.");
  }
  DurableFile probe(folder / "probe");  // never committed, so it goes away under its temporary name
  probe.write("probe");
  probe.finish();
}

void write_directory(const fs::path& folder, const std::vector<OutputFile>& files) {
  make_folder(folder);
  remove_leftovers(folder);
  Ordered ordered;
  for (const OutputFile& file : files) ordered.push_back(&file);
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const OutputFile* file) { return file->name != kMetaFile; });
  std::error_code error;
  if (fs::exists(folder / kMetaFile, error)) {
    replace_earlier(folder, ordered, files);
  } else {
    remove_stale(folder, files);
    write_fresh(folder, ordered);
  }
}

}  // namespace kiln
