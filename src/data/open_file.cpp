#include "data/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace kiln {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

// O_NONBLOCK: a named pipe is refused, not waited for.
OpenFile::OpenFile(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail(errno, "'" + path.string() + "'");
  struct stat info {};
  int error = ::fstat(descriptor_, &info) == 0 ? 0 : errno;
  if (error == 0 && !S_ISREG(info.st_mode)) error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  if (error == 0) return;
  ::close(descriptor_);
  fail(error, "'" + path.string() + "'");
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OpenFile OpenFile::unnamed(const std::filesystem::path& folder) {
  OpenFile file;
  file.descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.descriptor_ < 0) fail(errno, "'" + folder.string() + "'");
  return file;
}

std::uint64_t OpenFile::size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail(errno, "fstat");
  return static_cast<std::uint64_t>(info.st_size);
}

std::size_t OpenFile::read_at(std::uint64_t offset, char* target, std::size_t size) const {
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got =
        ::pread(descriptor_, target + filled, size - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno, "pread");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

void OpenFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno, "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace kiln
