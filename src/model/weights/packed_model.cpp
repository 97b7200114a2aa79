#include "model/weights/packed_model.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "data/archive/archive.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxText = 1 << 16;
constexpr std::uint64_t kMaxLabelMap = 64 << 20;

[[noreturn]] void fail(const fs::path& file, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "The packed model " + quoted_path(file) + " cannot be used: " + fault +
                  ". Give the model.tar.gz of a training job, or the folder with its files.");
}

OpenFile opened(const fs::path& path) {
  OpenFile file(path);
  return is_compressed(file) ? unpacked(path) : std::move(file);
}

// Scans the tar again for each file, because a list of all its names could take much memory.
class PackedFiles {
 public:
  explicit PackedFiles(const fs::path& path) : path_(path), file_(opened(path)) {
    if (!is_tar(file_)) fail(path, "it is not a tar file");
    std::optional<std::string> folder;
    list_tar(file_, [&](std::string_view name, const ArchiveMember&) {
      if (name != kMetaFile && !name.ends_with("/" + std::string(kMetaFile))) return;
      const std::string_view around = name.substr(0, name.size() - kMetaFile.size());
      if (!folder || around.size() < folder->size()) folder = around;
    });
    if (!folder)
      fail(path, "it has no " + std::string(kMetaFile) + ", so it has no model directory");
    folder_ = *folder;
  }

  std::string where(std::string_view name) const {
    return path_.string() + ":" + folder_ + std::string(name);
  }

  // Returns a file's contents; empty if there is none. If several entries have the name, the last
  // one counts, as in tar itself.
  std::optional<std::string> find(std::string_view name, std::uint64_t most) const {
    const std::string wanted = folder_ + std::string(name);
    std::optional<ArchiveMember> found;
    list_tar(file_, [&](std::string_view entry, const ArchiveMember& member) {
      if (entry == wanted) found = member;
    });
    if (!found) return std::nullopt;
    if (found->size > most)
      fail(path_, "its " + wanted + " is larger than " + std::to_string(most) + " bytes");
    std::string bytes = file_.bytes_at(found->offset, found->size);
    if (bytes.size() < found->size) fail(path_, "it was truncated while being read");
    return bytes;
  }

  std::string read(std::string_view name, std::uint64_t most) const {
    std::optional<std::string> bytes = find(name, most);
    if (!bytes) fail(path_, "it has no " + folder_ + std::string(name));
    return std::move(*bytes);
  }

 private:
  fs::path path_;
  OpenFile file_;
  std::string folder_;  // such as "" or "model/"
};

std::vector<std::string> read_labels(const fs::path& file, const PackedFiles& files,
                                     int num_classes) {
  const std::optional<std::string> csv = files.find(kLabelMapFile, kMaxLabelMap);
  if (!csv) return {};
  std::vector<std::string> labels = parse_label_map(*csv);
  if (labels.size() != static_cast<std::size_t>(num_classes))
    fail(file, "its " + std::string(kLabelMapFile) + " has " + std::to_string(labels.size()) +
                   " labels for " + std::to_string(num_classes) + " classes");
  return labels;
}

ModelDirectory read_directory(const fs::path& file) {
  const PackedFiles files(file);
  const DirectoryMeta meta =
      parse_directory_meta(files.read(kMetaFile, kMaxText), files.where(kMetaFile));
  if (meta.type != "ModelDirectory") fail(file, "it is of type '" + meta.type.substr(0, 100) + "'");
  ModelDirectory directory;
  directory.spec =
      parse_model_spec(files.read(meta.model_spec, kMaxText), files.where(meta.model_spec));
  directory.state = read_state_dict(files.read(directory.spec.model_file, kMaxStateDictBytes));
  require_finite(directory.state);
  if (directory.spec.num_classes)
    directory.labels = read_labels(file, files, *directory.spec.num_classes);
  if (const auto pixels = files.find(kPreprocessingFile, kMaxText))
    directory.preprocessing = parse_preprocessing(*pixels, files.where(kPreprocessingFile));
  return directory;
}

}  // namespace

bool is_packed(const fs::path& file) {
  const OpenFile open(file);
  return is_compressed(open) || is_tar(open);
}

ModelDirectory read_packed_model(const fs::path& file) {
  try {
    return read_directory(file);
  } catch (const ArchiveFault& fault) {
    fail(file, fault.what());
  } catch (const FormatFault& fault) {
    fail(file, fault.what());
  } catch (const SpoolFault& fault) {
    fail(file, std::string("it must be unpacked, and ") + fault.what() +
                   "; set TMPDIR to a folder with more space");
  } catch (const std::system_error& fault) {
    fail(file, fault.code().message());
  }
}

}  // namespace kiln
