// Writes checkpoints: plain files in order, each synced, checkpoint.json last. Then removes old
// checkpoints.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "store/checkpoint.h"
#include "store/model_spec.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& folder, const std::string& fault,
                       const std::string& remedy) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "The folder for checkpoints " + quoted_path(folder) + " " + fault + ". " + remedy);
}

[[noreturn]] void fail_to_list(const fs::path& folder, const fs::filesystem_error& fault) {
  fail(folder, "cannot be listed (" + system_words(fault.code().value()) + ")",
       "Fix its permissions, or choose another one.");
}

bool is_own(const fs::directory_entry& entry, const std::string& name) {
  std::error_code fault;
  const fs::file_type type = entry.symlink_status(fault).type();
  return checkpoint_number(name) ? type == fs::file_type::directory
                                 : best_number(name) && type == fs::file_type::regular;
}

void refuse_others_folder(const fs::path& folder) {
  constexpr std::size_t kShown = 3;
  std::error_code fault;
  if (fs::exists(folder / kMetaFile, fault))
    fail(folder, "is a model directory", "Choose a folder without other files.");
  std::vector<std::string> foreign;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!is_ignored_name(name) && !is_own(entry, name)) foreign.push_back(name);
  }
  std::sort(foreign.begin(), foreign.end());
  if (!foreign.empty())
    fail(folder, "contains other files (" + quoted_names(foreign, kShown) + ")",
         "Choose an empty folder, or one with only checkpoints.");
}

// A new file whose bytes are hashed as they are written. The destructor removes an unfinished file.
class HashedFile {
 public:
  HashedFile(fs::path path, std::uint64_t num_bytes)
      : path_(std::move(path)), num_bytes_(num_bytes), hash_(num_bytes) {
    if (num_bytes > kMaxStateDictBytes) fail_to_write(path_, EFBIG);
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0) fail_to_write(path_, errno);
  }
  ~HashedFile() {
    if (file_ >= 0) ::close(file_);
    if (!finished_) ::unlink(path_.c_str());
  }
  HashedFile(const HashedFile&) = delete;
  HashedFile& operator=(const HashedFile&) = delete;

  void write(std::string_view bytes) {
    constexpr std::size_t kPiece = 1 << 20;  // still in the CPU's cache when it is written
    for (; !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
      const std::string_view piece = bytes.substr(0, kPiece);
      hash_.add(piece);
      write_piece(piece);
    }
  }

  CheckpointFile finish() {
    if (::fsync(file_) != 0) fail_to_write(path_, errno);
    if (::close(std::exchange(file_, -1)) != 0) fail_to_write(path_, errno);
    finished_ = true;
    return {path_.filename().string(), num_bytes_, hash_.value()};
  }

 private:
  void write_piece(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_to_write(path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  fs::path path_;
  std::uint64_t num_bytes_;
  ContentHash hash_;
  int file_ = -1;
  bool finished_ = false;
};

CheckpointFile write_text(const fs::path& path, std::string_view text) {
  HashedFile file(path, text.size());
  file.write(text);
  return file.finish();
}

CheckpointFile write_tensors(const fs::path& path, const std::vector<TensorView>& tensors) {
  const std::string header = safetensors_header(tensors);
  std::uint64_t num_bytes = header.size();
  for (const TensorView& tensor : tensors) num_bytes += tensor.bytes.size();
  HashedFile file(path, num_bytes);
  file.write(header);
  for (const TensorView& tensor : tensors) file.write(tensor.bytes);
  return file.finish();
}

// Removes checkpoint.json first: without it a checkpoint is incomplete, so an interrupted removal
// leaves nothing that is taken for a checkpoint.
void remove_checkpoint(const fs::path& folder) {
  if (::unlink((folder / kManifestFile).c_str()) != 0 && errno != ENOENT) return;
  for (const std::string_view name : kCheckpointFiles) ::unlink((folder / name).c_str());
  ::rmdir(folder.c_str());
}

// Whether the checkpoint is complete, judged without reading all of it. One from a newer version
// counts as complete.
bool looks_whole(const fs::path& folder) {
  try {
    check_sizes(folder, read_manifest(folder));
    return true;
  } catch (const NewerFormat&) {
    return true;
  } catch (const FormatFault&) {
    return false;
  }
}

bool has_size(const fs::path& path, std::uint64_t bytes) {
  std::error_code fault;
  return fs::file_size(path, fault) == bytes && !fault;
}

// A checkpoint being written. The destructor removes it unless it is complete.
class Attempt {
 public:
  Attempt(const fs::path& folder, std::int64_t number)
      : folder_(folder / checkpoint_name(number)), best_(folder / best_name(number)) {}
  ~Attempt() {
    if (complete_) return;
    if (has_folder_) remove_checkpoint(folder_);
    if (has_best_) ::unlink(best_.c_str());
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  const fs::path& folder() const { return folder_; }

  CheckpointFile write_best(const std::vector<TensorView>& tensors) {
    CheckpointFile file = write_tensors(best_, tensors);
    has_best_ = true;
    return file;
  }

  void write(const CheckpointView& view, CheckpointManifest manifest) {
    if (::mkdir(folder_.c_str(), 0777) != 0) fail_to_write(folder_, errno);
    has_folder_ = true;
    manifest.files = {write_text(folder_ / kCheckpointFiles[0], view.state_json),
                      write_text(folder_ / kCheckpointFiles[1], view.record),
                      write_tensors(folder_ / kCheckpointFiles[2], view.tensors)};
    sync_folder(folder_);
    sync_folder(folder_.parent_path());
    write_text(folder_ / kManifestFile, format_manifest(manifest));
    sync_folder(folder_);
    if (!looks_whole(folder_)) fail_to_write(folder_, EIO);
    complete_ = true;
  }

 private:
  fs::path folder_, best_;
  bool has_folder_ = false, has_best_ = false, complete_ = false;
};

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, int keep)
    : folder_(std::move(folder)), keep_(std::max(keep, 1)) {
  try {
    refuse_others_folder(path());
    remove_leftovers(path());
  } catch (const fs::filesystem_error& fault) {
    fail_to_list(path(), fault);
  }
  DurableFile probe(path() / "probe");  // never committed, so it is removed
  probe.write("probe");
  probe.finish();
}

std::optional<Checkpoint> CheckpointFolder::newest(std::vector<std::string>& skipped,
                                                   const StateCheck& check) {
  try {
    damaged_.clear();
    std::optional<Checkpoint> found = newest_checkpoint(path(), check, damaged_);
    skipped = clauses_of(damaged_);
    best_.reset();
    if (!found || found->best.empty()) return found;
    best_ = read_manifest(found->path).best;
    best_epoch_ = found->best_epoch;
    return found;
  } catch (const fs::filesystem_error& fault) {
    fail_to_list(path(), fault);
  }
}

void CheckpointFolder::begin_anew() {
  oldest_ = next_number();
  best_.reset();
}

fs::path CheckpointFolder::write(const CheckpointView& view) {
  Attempt attempt(path(), next_number());
  CheckpointManifest manifest;
  if (!view.best.empty()) {
    const bool is_there =
        best_ && best_epoch_ == view.best_epoch && has_size(path() / best_->name, best_->bytes);
    manifest.best = is_there ? *best_ : attempt.write_best(view.best);
    manifest.best_epoch = view.best_epoch;
  }
  attempt.write(view, manifest);
  best_ = manifest.best;
  best_epoch_ = manifest.best_epoch;
  remove_old();
  return attempt.folder();
}

std::int64_t CheckpointFolder::next_number() const {
  try {
    const CheckpointNumbers numbers = numbers_in(path());
    std::int64_t highest = 0;
    for (const auto& some : {numbers.checkpoints, numbers.best})
      if (!some.empty()) highest = std::max(highest, *some.rbegin());
    return highest + 1;
  } catch (const fs::filesystem_error& fault) {
    fail_to_list(path(), fault);
  }
}

// Failures are ignored: the new checkpoint is complete, and the next one tries again.
void CheckpointFolder::remove_old() const {
  try {
    int num_kept = 0;
    const std::set<std::int64_t> numbers = numbers_in(path()).checkpoints;
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
      const fs::path folder = path() / checkpoint_name(*number);
      const bool is_kept = num_kept < keep_ && *number >= oldest_ && !damaged_.contains(*number) &&
                           looks_whole(folder);
      if (is_kept) ++num_kept;
      if (!is_kept) remove_checkpoint(folder);
    }
    remove_unused_best();
  } catch (const fs::filesystem_error&) {
  }
}

void CheckpointFolder::remove_unused_best() const {
  const CheckpointNumbers numbers = numbers_in(path());
  std::set<std::int64_t> unused = numbers.best;
  for (const std::int64_t number : numbers.checkpoints) {
    const fs::path folder = path() / checkpoint_name(number);
    std::error_code fault;
    if (!fs::exists(folder / kManifestFile, fault)) continue;
    try {
      const CheckpointManifest manifest = read_manifest(folder);
      if (manifest.best) unused.erase(*best_number(manifest.best->name));
    } catch (const FormatFault&) {
      return;  // may be from a newer version and refer to any of them
    }
  }
  for (const std::int64_t number : unused) ::unlink((path() / best_name(number)).c_str());
}

}  // namespace kiln
