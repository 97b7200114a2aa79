// Reads checkpoints: checkpoint.json, then the files that it lists.
#include "store/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kFormat = "kiln checkpoint";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kMaxManifest = 1 << 16;

Json json_of(const CheckpointFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"content_hash", hex_digits(file.hash)}};
}

[[noreturn]] void refuse_manifest(const std::string& fault) {
  throw FormatFault("its " + std::string(kManifestFile) + " " + fault);
}

const Json& member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) refuse_manifest("has no '" + std::string(name) + "'");
  return *found;
}

std::uint64_t number_in(const Json& object, const char* name, std::uint64_t most) {
  const Json& value = member(object, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    refuse_manifest("has a '" + std::string(name) + "' that is not a whole number in its range");
  return value.get<std::uint64_t>();
}

std::string text_in(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_string()) refuse_manifest("has a '" + std::string(name) + "' that is not a string");
  return value.get<std::string>();
}

CheckpointFile file_of(const Json& value) {
  if (!value.is_object()) refuse_manifest("has a file that is not an object");
  CheckpointFile file{text_in(value, "name"), number_in(value, "bytes", kMaxStateDictBytes), 0};
  const std::string hash = text_in(value, "content_hash");
  const auto end = std::from_chars(hash.data(), hash.data() + hash.size(), file.hash, 16).ptr;
  if (hex_digits(file.hash) != hash || end != hash.data() + hash.size())
    refuse_manifest("has a 'content_hash' that is not 16 hexadecimal digits");
  return file;
}

std::string read_part(const fs::path& path, std::uint64_t max_bytes) {
  const std::string name = "'" + path.filename().string() + "'";
  try {
    return read_file(path, max_bytes);
  } catch (const std::system_error& fault) {
    throw FormatFault(name + " cannot be read (" + fault.code().message() + ")");
  } catch (const std::length_error&) {
    throw FormatFault(name + " is larger than " + std::to_string(max_bytes) + " bytes");
  }
}

std::string read_verified(const fs::path& folder, const CheckpointFile& file) {
  std::string bytes = read_part(folder / file.name, file.bytes);
  if (content_hash(bytes) != file.hash)
    throw FormatFault("'" + file.name + "' is damaged: its bytes do not match the hash in " +
                      std::string(kManifestFile));
  return bytes;
}

StateDict read_tensors(const fs::path& folder, const CheckpointFile& file) {
  const std::string bytes = read_verified(folder, file);
  try {
    return read_safetensors(bytes);
  } catch (const FormatFault& fault) {
    throw FormatFault("'" + file.name + "' cannot be used: " + fault.what());
  }
}

// `folder` is the checkpoint's own. Throws FormatFault.
Checkpoint read_whole(const fs::path& folder) {
  const CheckpointManifest manifest = read_manifest(folder);
  check_sizes(folder, manifest);
  Checkpoint found{folder,
                   read_verified(folder, manifest.files[0]),
                   read_verified(folder, manifest.files[1]),
                   read_tensors(folder, manifest.files[2]),
                   {},
                   0,
                   0};
  for (const CheckpointFile& file : manifest.files) found.bytes += file.bytes;
  if (manifest.best) {
    found.best = read_tensors(folder.parent_path(), *manifest.best);
    found.best_epoch = manifest.best_epoch;
    found.bytes += manifest.best->bytes;
  }
  return found;
}

std::optional<std::int64_t> number_of(std::string_view name, std::string (*name_of)(std::int64_t)) {
  constexpr std::size_t kMostDigits = 18;
  const std::size_t begin = name.find_first_of("0123456789");
  if (begin == name.npos) return std::nullopt;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  std::int64_t number = 0;
  if (end - begin <= kMostDigits) std::from_chars(name.data() + begin, name.data() + end, number);
  if (name != name_of(number)) return std::nullopt;  // also for "checkpoint-0000007"
  return number;
}

// The canonical path of the checkpoint, from which its name and parent folder can be taken; empty
// if `path` is not a checkpoint.
std::optional<fs::path> single_checkpoint(const fs::path& path) {
  std::error_code fault;
  const fs::path real = fs::canonical(path, fault);
  if (fault) return std::nullopt;
  const bool has_name = checkpoint_number(real.filename().string()).has_value();
  if (fs::exists(real / kManifestFile, fault) ||
      (has_name && fs::exists(real / kCheckpointFiles[0], fault)))
    return real;
  return std::nullopt;
}

}  // namespace

std::string checkpoint_name(std::int64_t number) {
  return formatted("checkpoint-%06lld", static_cast<long long>(number));
}

std::string best_name(std::int64_t number) {
  return formatted("best-%06lld.safetensors", static_cast<long long>(number));
}

std::optional<std::int64_t> checkpoint_number(std::string_view name) {
  return number_of(name, checkpoint_name);
}

std::optional<std::int64_t> best_number(std::string_view name) {
  return number_of(name, best_name);
}

std::string format_manifest(const CheckpointManifest& manifest) {
  Json root{{"format", kFormat}, {"version", kVersion}, {"files", Json::array()}};
  for (const CheckpointFile& file : manifest.files) root["files"].push_back(json_of(file));
  if (manifest.best) {
    root["best"] = json_of(*manifest.best);
    root["best"]["epoch"] = manifest.best_epoch;
  }
  return root.dump(2) + "\n";
}

CheckpointManifest parse_manifest(std::string_view json) {
  Json root;
  try {
    root = parse_json(json, RepeatedKeys::kRefused);
  } catch (const JsonFault& fault) {
    refuse_manifest(fault.what());
  }
  if (!root.is_object() || text_in(root, "format") != kFormat)
    refuse_manifest("does not belong to a checkpoint");
  const std::uint64_t version = number_in(root, "version", UINT64_MAX);
  if (version > kVersion)
    throw NewerFormat("it was written by a newer version of kiln (format " +
                      std::to_string(version) + "; this one reads " + std::to_string(kVersion) +
                      ")");
  CheckpointManifest manifest;
  const Json& files = member(root, "files");
  if (version == 0 || !files.is_array() || files.size() != kCheckpointFiles.size())
    refuse_manifest("does not list the files of a checkpoint");
  for (const Json& value : files) {
    manifest.files.push_back(file_of(value));
    if (manifest.files.back().name != kCheckpointFiles[manifest.files.size() - 1])
      refuse_manifest("lists a file that does not belong to a checkpoint");
  }
  if (root.contains("best")) {
    manifest.best = file_of(root["best"]);
    manifest.best_epoch = static_cast<int>(number_in(root["best"], "epoch", INT_MAX));
    if (!best_number(manifest.best->name)) refuse_manifest("names an unknown file as the best");
  }
  return manifest;
}

CheckpointManifest read_manifest(const fs::path& folder) {
  std::error_code fault;
  if (fs::symlink_status(folder / kManifestFile, fault).type() == fs::file_type::not_found)
    throw FormatFault("it has no " + std::string(kManifestFile) +
                      ": it was not completely written");
  return parse_manifest(read_part(folder / kManifestFile, kMaxManifest));
}

void check_sizes(const fs::path& folder, const CheckpointManifest& manifest) {
  const auto check = [](const fs::path& path, std::uint64_t bytes) {
    std::error_code fault;
    const std::uint64_t size = fs::file_size(path, fault);
    const std::string name = "'" + path.filename().string() + "'";
    if (fault) throw FormatFault(name + " cannot be read (" + fault.message() + ")");
    if (size != bytes)
      throw FormatFault(name + " has " + std::to_string(size) + " bytes instead of " +
                        std::to_string(bytes));
  };
  for (const CheckpointFile& file : manifest.files) check(folder / file.name, file.bytes);
  if (manifest.best) check(folder.parent_path() / manifest.best->name, manifest.best->bytes);
}

CheckpointNumbers numbers_in(const fs::path& folder) {
  CheckpointNumbers numbers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (const auto number = checkpoint_number(name)) numbers.checkpoints.insert(*number);
    if (const auto number = best_number(name)) numbers.best.insert(*number);
  }
  return numbers;
}

std::optional<Checkpoint> newest_checkpoint(const fs::path& folder, const StateCheck& check,
                                            std::map<std::int64_t, std::string>& damaged) {
  const std::set<std::int64_t> numbers = numbers_in(folder).checkpoints;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    try {
      Checkpoint found = read_whole(folder / checkpoint_name(*number));
      if (check) check(found.state_json);
      return found;
    } catch (const FormatFault& fault) {
      damaged[*number] = fault.what();
    } catch (const Error& fault) {
      damaged[*number] = fault.what();
    }
  }
  return std::nullopt;
}

std::vector<std::string> clauses_of(const std::map<std::int64_t, std::string>& damaged) {
  std::vector<std::string> clauses;
  clauses.reserve(damaged.size());
  for (const auto& [number, fault] : damaged)
    clauses.push_back(checkpoint_name(number) + " is not used: " + fault);
  return clauses;
}

bool is_checkpoint(const fs::path& path) {
  if (single_checkpoint(path)) return true;
  std::error_code fault;
  for (fs::directory_iterator entry(path, fault), end; !fault && entry != end;
       entry.increment(fault)) {
    const fs::path inner = entry->path();
    if (checkpoint_number(inner.filename().string()) && single_checkpoint(inner)) return true;
  }
  return false;
}

Checkpoint read_checkpoint(const fs::path& path, std::vector<std::string>& skipped) {
  const auto refuse = [&](const std::string& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                quoted_path(path) + " is not a complete checkpoint: " + fault +
                    ". Give another checkpoint of the run, or the folder that holds them.");
  };
  try {
    if (const auto single = single_checkpoint(path)) return read_whole(*single);
    std::map<std::int64_t, std::string> damaged;
    std::optional<Checkpoint> found = newest_checkpoint(path, {}, damaged);
    skipped = clauses_of(damaged);
    if (found) return std::move(*found);
    refuse(skipped.empty() ? "there is none in it" : skipped.back());
  } catch (const FormatFault& fault) {
    refuse(fault.what());
  } catch (const fs::filesystem_error& fault) {
    refuse("it cannot be listed (" + fault.code().message() + ")");
  }
  throw InternalError("read_checkpoint: neither found nor refused");
}

}  // namespace kiln
