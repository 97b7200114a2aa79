#include "base/untrusted.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
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

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80   ? 1
                               : byte < 0xc2 ? 0
                               : byte < 0xe0 ? 2
                               : byte < 0xf0 ? 3
                               : byte < 0xf5 ? 4
                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    std::uint32_t code = length == 1 ? byte : byte & (0x7f >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    if ((length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) ||
        (length == 4 && (code < 0x10000 || code > 0x10ffff))) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace kiln
