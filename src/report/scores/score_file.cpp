#include "report/scores/score_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace kiln {
namespace {

using Json = nlohmann::json;
using Settings = std::map<std::string, std::string>;

constexpr int kVersion = 2;

constexpr std::pair<const char*, std::int64_t ScoreProgress::*> kCounts[] = {
    {"images", &ScoreProgress::num_images},
    {"labeled", &ScoreProgress::num_labeled},
    {"right", &ScoreProgress::num_right},
    {"unsure", &ScoreProgress::num_unsure},
    {"seen_in_training", &ScoreProgress::num_seen_in_training},
    {"seen_in_validation", &ScoreProgress::num_seen_in_validation},
    {"bad", &ScoreProgress::num_bad},
    {"damaged", &ScoreProgress::num_damaged}};

// Of what is no such number, 0, which is then not what the text has.
std::uint64_t count_in(const Json& value) {
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

std::uint64_t hash_in(const Json& digits) {
  return number_in<std::uint64_t>(digits.get_ref<const std::string&>(), 16).value_or(0);
}

}  // namespace

std::string format_score_progress(const ScoreProgress& progress) {
  nlohmann::ordered_json root;
  root["version"] = kVersion;
  root["rows"] = progress.settings.rows;
  root["bits"] = progress.settings.bits;
  for (const auto& [name, count] : kCounts) root[name] = progress.*count;
  root["first_bad"] = progress.first_bad;
  root["names"] = hex_digits(progress.names);
  root["bytes"] = progress.bytes;
  root["hash"] = hex_digits(progress.hash);
  return root.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

ScoreProgress parse_score_progress(std::string_view json) {
  const JsonFault other(1, "is not what this version of kiln writes");
  if (json.size() > kMaxProgressBytes) throw other;
  const Json root = parse_json(json, RepeatedKeys::kRefused);
  ScoreProgress progress;
  try {
    progress.settings = {root.at("rows").get<Settings>(), root.at("bits").get<Settings>()};
    for (const auto& [name, count] : kCounts) progress.*count = count_in(root.at(name));
    progress.first_bad = root.at("first_bad").get<std::string>();
    progress.names = hash_in(root.at("names"));
    progress.bytes = count_in(root.at("bytes"));
    progress.hash = hash_in(root.at("hash"));
  } catch (const Json::exception&) {
    throw other;
  }
  if (format_score_progress(progress) != json) throw other;
  const std::int64_t num_answered = progress.num_images - progress.num_bad;
  if (num_answered < 0 || progress.num_labeled > num_answered ||
      progress.num_right > progress.num_labeled || progress.num_unsure > num_answered ||
      progress.num_damaged > progress.num_images ||
      progress.num_seen_in_training > progress.num_images ||
      progress.num_seen_in_validation > progress.num_images)
    throw other;
  return progress;
}

std::vector<std::string> differences(const Settings& before, const Settings& now) {
  Settings all = before;
  all.insert(now.begin(), now.end());
  const auto value_in = [](const Settings& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? "not given" : found->second;
  };
  std::vector<std::string> texts;
  for (const auto& [name, value] : all) {
    const std::string was = value_in(before, name), is = value_in(now, name);
    if (was != is) texts.push_back(name + " was " + excerpt(was) + " and is now " + excerpt(is));
  }
  return texts;
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& fault) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "--output-path " + quoted_path(path) + " cannot be written: " + fault);
}

void require_place_for(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!is_folder(folder))
    refuse(path, "there is no folder " + quoted_path(folder) + ". Create it, or choose another." +
                     did_you_mean_path(folder));
  if (is_there(path) && !is_file(path))
    refuse(path, is_folder(path) ? "it is a folder. Choose a file."
                                 : "it is a device or pipe. Choose a file.");
}

void sync_file(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0 || ::fsync(file.number()) != 0) fail_to_write(path, errno);
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_to_write(path, errno);
}

// A device cannot be truncated (EINVAL); that is not an error.
void cut(const fs::path& path, std::uint64_t size) {
  if (::truncate(path.c_str(), static_cast<off_t>(size)) != 0 && errno != EINVAL)
    fail_to_write(path, errno);
}

// Removes temporary files that killed processes left while writing `path`, if the folder can be
// listed.
void tidy(const fs::path& path) try {
  remove_leftovers_of(path);
} catch (const fs::filesystem_error&) {
}

// Returns the hash of the file's first `count` bytes, which are there. Throws std::system_error.
ContentHash hash_of_first(const fs::path& path, std::uint64_t count) {
  ContentHash hash(0);
  read_in_pieces(path, [&](std::string_view piece) {
    piece = piece.substr(0, count);
    hash.add(piece);
    count -= piece.size();
  });
  return hash;
}

}  // namespace

ScoreFile::ScoreFile(fs::path path)
    : path_(std::move(path)),
      part_path_(path_.string() + ".part"),
      progress_path_(part_path_.string() + ".json") {
  if (path_.empty()) return;
  require_place_for(path_);
  rehearse_write(path_);  // another process may remove leftovers of the progress
  part_.emplace(part_path_, AppendedFile::Begin::kAtEnd);
  // After the file was opened here but before it was locked, another process may have renamed it to
  // `path_`.
  if (!is_there(part_path_)) refuse(path_, "another program has just finished it. Try again.");
}

ScoreFile::~ScoreFile() {
  std::error_code failure;
  const bool is_untouched = !is_begun_ && fs::file_size(part_path_, failure) > 0;
  if (part_ && !is_saved_ && !is_untouched) ::unlink(part_path_.c_str());
}

UnfinishedScores ScoreFile::unfinished() {
  std::error_code failure;
  const std::uintmax_t size = part_ ? fs::file_size(part_path_, failure) : 0;
  if (failure || size == 0 || !is_there(progress_path_)) return {};
  const std::string where = quoted_path(progress_path_);
  try {
    const ScoreProgress progress =
        parse_score_progress(read_file(progress_path_, kMaxProgressBytes));
    if (progress.bytes <= size) hash_ = hash_of_first(part_path_, progress.bytes);
    if (progress.bytes > size || hash_.value() != progress.hash)
      return {{}, quoted_path(part_path_) + " does not match " + where};
    return {progress, ""};
  } catch (const JsonFault& fault) {
    return {{}, where + " " + fault.what()};
  } catch (const std::length_error& fault) {
    return {{}, fault.what()};
  } catch (const std::system_error& fault) {
    return {{}, where + " cannot be read: " + fault.code().message()};
  }
}

// Removes the progress durably before truncating the file: if the process is killed in between, the
// progress must not refer to rows that are gone.
void ScoreFile::restart() {
  is_begun_ = true;
  if (!part_) return;
  std::error_code failure;
  if (is_there(progress_path_) || fs::file_size(part_path_, failure) > 0) {
    remove_file(progress_path_);
    sync_folder(path_.parent_path());
    tidy(progress_path_);
    cut(part_path_, 0);
  }
  bytes_ = 0;
  hash_ = ContentHash(0);
}

void ScoreFile::resume(const ScoreProgress& progress) {
  is_begun_ = is_saved_ = true;
  tidy(progress_path_);
  cut(part_path_, progress.bytes);
  bytes_ = progress.bytes;
}

void ScoreFile::write(std::string_view rows) {
  if (part_) {
    part_->append(rows);
    bytes_ += rows.size();
    return hash_.add(rows);
  }
  const bool written = std::fwrite(rows.data(), 1, rows.size(), stdout) == rows.size();
  if (!written || std::fflush(stdout) != 0)
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "The predictions cannot be written to standard output: " + system_words(errno) +
                    ". Pipe them to a program that reads all input, or use --output-path.");
}

void ScoreFile::save(ScoreProgress progress) {
  progress.bytes = bytes_;
  progress.hash = hash_.value();
  sync_file(part_path_);
  write_file_durably(progress_path_, format_score_progress(progress));
  is_saved_ = true;
}

void ScoreFile::discard() {
  if (!part_) return;
  remove_file(progress_path_);
  remove_file(part_path_);
  part_.reset();
}

void ScoreFile::commit() {
  if (!part_) return;
  sync_file(part_path_);
  if (::rename(part_path_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  part_.reset();
  remove_file(progress_path_);
  sync_folder(path_.parent_path());
}

}  // namespace kiln
