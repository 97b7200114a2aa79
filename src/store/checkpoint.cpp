#include "store/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "store/model_spec.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kManifestFile = "checkpoint.json";
constexpr std::string_view kFormat = "kiln checkpoint";
constexpr std::uint64_t kManifestVersion = 1;
constexpr std::uint64_t kMaxManifest = 1 << 16;
constexpr std::uint64_t kMaxCheckpointBytes = std::uint64_t{64} << 30;  // of one of its files

// Of a checkpoint that may be whole: for another version of the program, or once it can be read.
class CannotJudge : public FormatFault {
  using FormatFault::FormatFault;
};

std::optional<std::int64_t> number_in(std::string_view name, std::string (*name_of)(std::int64_t)) {
  constexpr std::size_t kMaxDigits = 18;
  const std::size_t begin = name.find_first_of("0123456789");
  if (begin == name.npos) return std::nullopt;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  std::int64_t number = 0;
  if (end - begin <= kMaxDigits) std::from_chars(name.data() + begin, name.data() + end, number);
  if (name != name_of(number)) return std::nullopt;  // also for "checkpoint-0000007"
  return number;
}

std::string checkpoint_name(std::int64_t number) {
  return formatted("checkpoint-%06lld", static_cast<long long>(number));
}

std::string best_name(std::int64_t number) {
  return formatted("best-%06lld.safetensors", static_cast<long long>(number));
}

Json json_of(const CheckpointFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"content_hash", hex_digits(file.hash)}};
}

[[noreturn]] void refuse_manifest(const std::string& fault) {
  throw FormatFault("its " + std::string(kManifestFile) + " " + fault);
}

std::uint64_t number_in(const Json& object, const char* name, std::uint64_t most) {
  const Json* value = member_of(object, name);
  if (value == nullptr || !value->is_number_unsigned() || value->get<std::uint64_t>() > most)
    refuse_manifest("has no '" + std::string(name) + "' that is a whole number in its range");
  return value->get<std::uint64_t>();
}

CheckpointFile file_of(const Json& value) {
  CheckpointFile file{text_at(value, "name"), number_in(value, "bytes", kMaxCheckpointBytes), 0};
  const std::string& hash = text_at(value, "content_hash");
  file.hash = kiln::number_in<std::uint64_t>(hash, 16).value_or(0);
  if (hex_digits(file.hash) != hash)
    refuse_manifest("has a 'content_hash' that is not 16 hexadecimal digits");
  return file;
}

}  // namespace

std::string format_manifest(const CheckpointManifest& manifest) {
  Json root{{"format", kFormat}, {"version", kManifestVersion}, {"files", Json::array()}};
  for (const CheckpointFile& file : manifest.files) root["files"].push_back(json_of(file));
  if (manifest.best) {
    root["best"] = json_of(*manifest.best);
    root["best"]["epoch"] = manifest.best_epoch;
  }
  return root.dump(2) + "\n";
}

CheckpointManifest parse_manifest(std::string_view json) try {
  const Json root = parse_json(json, RepeatedKeys::kRefused);
  if (text_at(root, "format") != kFormat) refuse_manifest("does not belong to a checkpoint");
  const std::uint64_t version = number_in(root, "version", UINT64_MAX);
  if (version > kManifestVersion)
    throw CannotJudge("it was written by a newer version of kiln (format " +
                      std::to_string(version) + "; this one reads " +
                      std::to_string(kManifestVersion) + ")");
  CheckpointManifest manifest;
  const Json* files = member_of(root, "files");
  if (version == 0 || files == nullptr || !files->is_array() ||
      files->size() != kCheckpointFiles.size())
    refuse_manifest("does not list the files of a checkpoint");
  for (const Json& value : *files) {
    manifest.files.push_back(file_of(value));
    if (manifest.files.back().name != kCheckpointFiles[manifest.files.size() - 1])
      refuse_manifest("lists a file that does not belong to a checkpoint");
  }
  if (root.contains("best")) {
    manifest.best = file_of(root["best"]);
    manifest.best_epoch = static_cast<int>(number_in(root["best"], "epoch", INT_MAX));
    if (!number_in(manifest.best->name, best_name))
      refuse_manifest("names an unknown file as the best");
  }
  return manifest;
} catch (const JsonFault& fault) {
  refuse_manifest(fault.what());
}

namespace {

std::string quoted_name(const fs::path& path) {
  return "'" + path.filename().string() + "'";
}

// A missing file is damage; any other fault is that of the disk, the network or the permissions.
[[noreturn]] void fail_to_read(const fs::path& path, const std::error_code& fault) {
  const std::string clause = quoted_name(path) + " cannot be read (" + fault.message() + ")";
  if (fault == std::errc::no_such_file_or_directory) throw FormatFault(clause);
  throw CannotJudge(clause);
}

std::string read_part(const fs::path& path, std::uint64_t max_bytes) try {
  return read_file(path, max_bytes);
} catch (const std::system_error& fault) {
  fail_to_read(path, fault.code());
} catch (const std::length_error&) {
  throw FormatFault(quoted_name(path) + " is larger than " + std::to_string(max_bytes) + " bytes");
}

// A file may have any size: its hash is compared before it takes memory.
std::string read_verified(const fs::path& folder, const CheckpointFile& file) try {
  ContentHash hash(file.bytes);
  read_in_pieces(folder / file.name, [&](std::string_view piece) { hash.add(piece); });
  if (hash.value() != file.hash)
    throw FormatFault("'" + file.name + "' is damaged: its bytes do not match the hash in " +
                      std::string(kManifestFile));
  return read_part(folder / file.name, file.bytes);
} catch (const std::system_error& fault) {
  fail_to_read(folder / file.name, fault.code());
}

StateDict read_tensors(const fs::path& folder, const CheckpointFile& file) {
  const std::string bytes = read_verified(folder, file);
  try {
    return read_safetensors(bytes);
  } catch (const FormatFault& fault) {
    throw CannotJudge("'" + file.name + "' cannot be used: " + fault.what());
  }
}

// Throws FormatFault, or CannotJudge.
CheckpointManifest read_manifest(const fs::path& folder) {
  if (type_of_entry(folder / kManifestFile) == fs::file_type::not_found)
    throw FormatFault("it has no " + std::string(kManifestFile) +
                      ": it was not completely written");
  return parse_manifest(read_part(folder / kManifestFile, kMaxManifest));
}

// Throws FormatFault, or CannotJudge, unless the files in the checkpoint's `folder` have the listed
// sizes.
void check_sizes(const fs::path& folder, const CheckpointManifest& manifest) {
  const auto check = [](const fs::path& path, std::uint64_t bytes) {
    std::error_code fault;
    const std::uint64_t size = fs::file_size(path, fault);
    if (fault) fail_to_read(path, fault);
    if (size != bytes)
      throw FormatFault(quoted_name(path) + " has " + std::to_string(size) + " bytes instead of " +
                        std::to_string(bytes));
  };
  for (const CheckpointFile& file : manifest.files) check(folder / file.name, file.bytes);
  if (manifest.best) check(folder.parent_path() / manifest.best->name, manifest.best->bytes);
}

// The numbers in `folder`, complete or not. Throws std::filesystem::filesystem_error.
struct CheckpointNumbers {
  std::set<std::int64_t> checkpoints, best;
};
CheckpointNumbers numbers_in(const fs::path& folder) {
  CheckpointNumbers numbers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (const auto number = number_in(name, checkpoint_name)) numbers.checkpoints.insert(*number);
    if (const auto number = number_in(name, best_name)) numbers.best.insert(*number);
  }
  return numbers;
}

// `folder` is the checkpoint's own. Throws FormatFault, or CannotJudge.
Checkpoint read_whole(const fs::path& folder) try {
  const CheckpointManifest manifest = read_manifest(folder);
  check_sizes(folder, manifest);
  Checkpoint found{folder,
                   read_verified(folder, manifest.files[0]),
                   read_verified(folder, manifest.files[1]),
                   read_tensors(folder, manifest.files[2]),
                   {}};
  for (const CheckpointFile& file : manifest.files) found.bytes += file.bytes;
  if (manifest.best) {
    found.best = read_tensors(folder.parent_path(), *manifest.best);
    found.best_epoch = manifest.best_epoch;
    found.bytes += manifest.best->bytes;
  }
  return found;
} catch (const std::bad_alloc&) {
  throw CannotJudge("it does not fit into the memory of this host");
}

// The newest complete checkpoint in `folder`, if any, that passes `check`. `unused` receives newer
// ones by their numbers. Throws std::filesystem::filesystem_error.
std::optional<Checkpoint> newest_checkpoint(const fs::path& folder, const StateCheck& check,
                                            std::map<std::int64_t, UnusedCheckpoint>& unused) {
  const std::set<std::int64_t> numbers = numbers_in(folder).checkpoints;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    try {
      Checkpoint found = read_whole(folder / checkpoint_name(*number));
      if (check) check(found.state_json);
      return found;
    } catch (const CannotJudge& fault) {
      unused[*number] = {fault.what(), /*is_damaged=*/false};
    } catch (const FormatFault& fault) {
      unused[*number] = {fault.what(), /*is_damaged=*/true};
    } catch (const Error& fault) {  // its hash is right
      unused[*number] = {fault.what(), /*is_damaged=*/false};
    }
  }
  return std::nullopt;
}

// The clauses for `skipped`, newest last.
std::vector<std::string> clauses_of(const std::map<std::int64_t, UnusedCheckpoint>& unused) {
  return list_from(unused, [](const auto& one) {
    return checkpoint_name(one.first) + " is not used: " + one.second.why;
  });
}

// The canonical path of the checkpoint, from which its name and parent folder can be taken; empty
// if `path` is not a checkpoint.
std::optional<fs::path> single_checkpoint(const fs::path& path) {
  std::error_code fault;
  const fs::path real = fs::canonical(path, fault);
  if (fault) return std::nullopt;
  if (is_there(real / kManifestFile) || (number_in(real.filename().string(), checkpoint_name) &&
                                         is_there(real / kCheckpointFiles[0])))
    return real;
  return std::nullopt;
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  if (single_checkpoint(path)) return true;
  return std::ranges::any_of(names_in(path), [&](const std::string& name) {
    return number_in(name, checkpoint_name) && single_checkpoint(path / name);
  });
}

Checkpoint read_checkpoint(const fs::path& path, std::vector<std::string>& skipped) {
  const auto refusal = [&](const std::string& fault) {
    return Error(ErrorCode::kInvalidModelDirectory,
                 quoted_path(path) + " is not a complete checkpoint: " + fault +
                     ". Give another checkpoint of the run, or the folder that holds them.");
  };
  try {
    if (const auto single = single_checkpoint(path)) return read_whole(*single);
    std::map<std::int64_t, UnusedCheckpoint> unused;
    std::optional<Checkpoint> found = newest_checkpoint(path, {}, unused);
    skipped = clauses_of(unused);
    if (found) return std::move(*found);
    throw refusal(skipped.empty() ? "there is none in it" : skipped.back());
  } catch (const FormatFault& fault) {
    throw refusal(fault.what());
  } catch (const fs::filesystem_error& fault) {
    throw refusal("it cannot be listed (" + fault.code().message() + ")");
  }
}

namespace {

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
  return number_in(name, checkpoint_name)
             ? type == fs::file_type::directory
             : number_in(name, best_name) && type == fs::file_type::regular;
}

void refuse_others_folder(const fs::path& folder) {
  constexpr std::size_t kShown = 3;
  if (is_there(folder / kMetaFile))
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

// Writes a new file of these pieces, hashed as they are written; removes it if that fails.
CheckpointFile write_new(const fs::path& path, const std::vector<std::string_view>& pieces) {
  constexpr std::size_t kBlock = 1 << 20;  // still in the CPU's cache when it is written
  std::uint64_t num_bytes = 0;
  for (const std::string_view piece : pieces) num_bytes += piece.size();
  if (num_bytes > kMaxCheckpointBytes) fail_to_write(path, EFBIG);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.number() < 0) fail_to_write(path, errno);
  try {
    ContentHash hash(num_bytes);
    for (std::string_view rest : pieces)
      for (; !rest.empty(); rest.remove_prefix(std::min(kBlock, rest.size()))) {
        hash.add(rest.substr(0, kBlock));
        write_all(file.number(), rest.substr(0, kBlock), path);
      }
    if (::fsync(file.number()) != 0 || ::close(file.release()) != 0) fail_to_write(path, errno);
    return {path.filename().string(), num_bytes, hash.value()};
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

CheckpointFile write_tensors(const fs::path& path, const std::vector<TensorView>& tensors) {
  const std::string header = safetensors_header(tensors);
  std::vector<std::string_view> pieces = {header};
  for (const TensorView& tensor : tensors) pieces.push_back(tensor.bytes);
  return write_new(path, pieces);
}

// Removes checkpoint.json first: without it a checkpoint is incomplete, so an interrupted removal
// leaves nothing that is taken for a checkpoint.
void remove_checkpoint(const fs::path& folder) {
  if (::unlink((folder / kManifestFile).c_str()) != 0 && errno != ENOENT) return;
  for (const std::string_view name : kCheckpointFiles) ::unlink((folder / name).c_str());
  ::rmdir(folder.c_str());
}

enum class Judgement { kWhole, kDamaged, kUnknown };

// Of a checkpoint, without reading all of it, with or without the best epoch's weights.
Judgement judge(const fs::path& folder, bool with_best = true) try {
  CheckpointManifest manifest = read_manifest(folder);
  if (!with_best) manifest.best.reset();
  check_sizes(folder, manifest);
  return Judgement::kWhole;
} catch (const CannotJudge&) {
  return Judgement::kUnknown;
} catch (const FormatFault&) {
  return Judgement::kDamaged;
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
    manifest.files = {write_new(folder_ / kCheckpointFiles[0], {view.state_json}),
                      write_new(folder_ / kCheckpointFiles[1], {view.record}),
                      write_tensors(folder_ / kCheckpointFiles[2], view.tensors)};
    sync_folder(folder_);
    sync_folder(folder_.parent_path());
    write_new(folder_ / kManifestFile, {format_manifest(manifest)});
    sync_folder(folder_);
    if (judge(folder_) != Judgement::kWhole) fail_to_write(folder_, EIO);
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
    complete_file(path() / "probe", "probe");  // checkpoints are not renamed
  } catch (const fs::filesystem_error& fault) {
    fail_to_list(path(), fault);
  }
}

std::optional<Checkpoint> CheckpointFolder::newest(std::vector<std::string>& skipped,
                                                   const StateCheck& check) try {
  unused_.clear();
  std::optional<Checkpoint> found = newest_checkpoint(path(), check, unused_);
  skipped = clauses_of(unused_);
  best_.reset();
  if (!found || found->best.empty()) return found;
  best_ = read_manifest(found->path).best;
  best_epoch_ = found->best_epoch;
  return found;
} catch (const fs::filesystem_error& fault) {
  fail_to_list(path(), fault);
}

bool CheckpointFolder::holds_unused() const {
  return std::ranges::any_of(unused_, [this](const auto& unused) {
    return judge(path() / checkpoint_name(unused.first), /*with_best=*/false) !=
           Judgement::kDamaged;
  });
}

void CheckpointFolder::restart() {
  oldest_ = next_number();
  best_.reset();
}

fs::path CheckpointFolder::write(const CheckpointView& view) {
  const std::int64_t number = next_number();
  unused_.erase(number);  // somebody has removed that one
  Attempt attempt(path(), number);
  CheckpointManifest manifest;
  if (!view.best.empty()) {
    std::error_code fault;
    const bool is_there = best_ && best_epoch_ == view.best_epoch &&
                          fs::file_size(path() / best_->name, fault) == best_->bytes && !fault;
    manifest.best = is_there ? *best_ : attempt.write_best(view.best);
    manifest.best_epoch = view.best_epoch;
  }
  attempt.write(view, manifest);
  best_ = manifest.best;
  best_epoch_ = manifest.best_epoch;
  remove_old();
  return attempt.folder();
}

std::int64_t CheckpointFolder::next_number() const try {
  auto [numbers, best] = numbers_in(path());
  numbers.merge(best);
  return numbers.empty() ? 1 : *numbers.rbegin() + 1;
} catch (const fs::filesystem_error& fault) {
  fail_to_list(path(), fault);
}

// Failures are ignored: the new checkpoint is complete, and the next one tries again.
void CheckpointFolder::remove_old() const try {
  int num_kept = 0;
  const std::set<std::int64_t> numbers = numbers_in(path()).checkpoints;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    const fs::path folder = path() / checkpoint_name(*number);
    Judgement judgement = judge(folder);
    if (const auto unused = unused_.find(*number); unused != unused_.end())
      judgement = unused->second.is_damaged ? Judgement::kDamaged : Judgement::kUnknown;
    const bool is_own = *number >= oldest_;
    if (is_own && judgement == Judgement::kUnknown) continue;  // beside those that are kept
    if (is_own && judgement == Judgement::kWhole && num_kept < keep_)
      ++num_kept;
    else
      remove_checkpoint(folder);
  }
  remove_unused_best();
} catch (const fs::filesystem_error&) {
}

void CheckpointFolder::remove_unused_best() const {
  const CheckpointNumbers numbers = numbers_in(path());
  std::set<std::int64_t> unused = numbers.best;
  for (const std::int64_t number : numbers.checkpoints) {
    try {
      const CheckpointManifest manifest = read_manifest(path() / checkpoint_name(number));
      if (manifest.best) unused.erase(*number_in(manifest.best->name, best_name));
    } catch (const CannotJudge&) {  // it may name any that was there when it was written
      unused.erase(unused.begin(), unused.upper_bound(number));
    } catch (const FormatFault&) {  // left by an interrupted removal or writing
    }
  }
  for (const std::int64_t number : unused) ::unlink((path() / best_name(number)).c_str());
}

bool CheckpointWriter::is_busy() const {
  return writing_.valid() &&
         writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void CheckpointWriter::begin(CheckpointView view) {
  wait();
  const auto write = [this, view = std::move(view)]() -> std::string {
    try {
      folder_.write(view);
      return "";
    } catch (const std::exception& fault) {
      return fault.what();
    }
  };
  try {
    writing_ = std::async(std::launch::async, write);
  } catch (const std::system_error& fault) {  // no more threads
    failure_ = fault.what();
  }
}

void CheckpointWriter::wait() {
  if (!writing_.valid()) return;
  if (std::string failure = writing_.get(); !failure.empty()) failure_ = std::move(failure);
}

std::string CheckpointWriter::take_failure() {
  if (!is_busy()) wait();
  return std::exchange(failure_, {});
}

}  // namespace kiln
