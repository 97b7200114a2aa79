#include "base/untrusted.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <system_error>

namespace kiln {

std::string first_bytes(const std::filesystem::path& path, std::size_t count) {
  // O_NONBLOCK: a pipe without a writer is refused and not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat info {};
  std::string bytes(count, '\0');
  ssize_t got = -1;
  int error = descriptor < 0 || ::fstat(descriptor, &info) != 0 ? errno : 0;
  if (error == 0 && !S_ISREG(info.st_mode)) error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  if (error == 0) {
    do got = ::pread(descriptor, bytes.data(), count, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) error = errno;
  }
  if (descriptor >= 0) ::close(descriptor);
  if (error != 0)
    throw std::system_error(error, std::generic_category(), "'" + path.string() + "'");
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

}  // namespace kiln
