#include "report/appended_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/files.h"

namespace kiln {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, int reason) {
  throw std::runtime_error("'" + path.string() + "' cannot be written: " + system_words(reason) +
                           ".");
}

// By another, so that the lock cannot be had; else it holds until the file is closed. Devices, and
// file systems without locks, never are.
bool is_taken(int file, int lock) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && ::flock(file, lock | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

}  // namespace

// O_NONBLOCK: a pipe without a reader is refused and not waited for.
AppendedFile::AppendedFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666)) {
  if (file_ < 0) refuse(path_, errno);
  const bool taken = is_taken(file_, LOCK_EX);
  if (!taken && (::ftruncate(file_, 0) == 0 || errno == EINVAL)) return;  // EINVAL: a device
  const int reason = taken ? EBUSY : errno;
  ::close(file_);
  refuse(path_, reason);
}

bool AppendedFile::is_in_use(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const bool taken = file >= 0 && is_taken(file, LOCK_SH);
  if (file >= 0) ::close(file);
  return taken;
}

AppendedFile::~AppendedFile() {
  ::close(file_);
}

void AppendedFile::append(std::string_view piece) {
  const off_t before = ::lseek(file_, 0, SEEK_END);
  const ssize_t written = ::write(file_, piece.data(), piece.size());
  struct stat info {};
  if (::fstat(file_, &info) == 0 && info.st_nlink == 0)
    throw std::runtime_error("'" + path_.string() + "' was removed while it was being written.");
  if (written == static_cast<ssize_t>(piece.size())) return;
  const int reason = written < 0 ? errno : ENOSPC;
  if (written > 0 && ::ftruncate(file_, before) == 0) ::lseek(file_, before, SEEK_SET);
  refuse(path_, reason);
}

}  // namespace kiln
