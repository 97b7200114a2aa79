#include "report/scores/score_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& fault) {
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "--output-path " + quoted_path(path) + " cannot be written: " + fault);
}

void require_place_for(const fs::path& path) {
  std::error_code failure;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, failure))
    refuse(path, "there is no folder " + quoted_path(folder) + ". Create it, or choose another." +
                     did_you_mean_path(folder));
  const fs::file_status status = fs::status(path, failure);
  if (fs::exists(status) && !fs::is_regular_file(status))
    refuse(path,
           std::string(fs::is_directory(status) ? "it is a folder" : "it is a device or pipe") +
               ". Choose a file.");
}

template <typename Action>
void as_error(Action&& action) {
  try {
    action();
  } catch (const std::runtime_error& failure) {
    throw Error(ErrorCode::kFailedToWriteOutputs,
                std::string(failure.what()) +
                    " Make room or access there, or choose another --output-path.");
  }
}

void sync_file(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_to_write(path, errno);
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (error != 0) fail_to_write(path, error);
}

}  // namespace

ScoreFile::ScoreFile(fs::path path) : path_(std::move(path)), part_path_(path_.string() + ".part") {
  if (path_.empty()) return;
  require_place_for(path_);
  as_error([&] { part_.emplace(part_path_); });
}

ScoreFile::~ScoreFile() {
  if (part_) ::unlink(part_path_.c_str());
}

void ScoreFile::write(std::string_view rows) {
  if (part_) return as_error([&] { part_->append(rows); });
  const bool written = std::fwrite(rows.data(), 1, rows.size(), stdout) == rows.size();
  if (!written || std::fflush(stdout) != 0)
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "The answers cannot be written to standard output: " + system_words(errno) +
                    ". Send them to a program that reads all of them, or use --output-path.");
}

void ScoreFile::commit() {
  if (!part_) return;
  sync_file(part_path_);
  if (::rename(part_path_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  part_.reset();
  sync_folder(path_.parent_path());
}

}  // namespace kiln
