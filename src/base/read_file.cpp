// The part of files.h that reads whole files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/files.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMaxWithoutSize = 1 << 20;

// A file that is read once, from its beginning.
class RegularFile {
 public:
  // O_NONBLOCK, because opening a pipe would otherwise wait for a writer before it is refused.
  explicit RegularFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat info {};
    int error = descriptor_ < 0 || ::fstat(descriptor_, &info) != 0 ? errno : 0;
    if (error == 0 && !S_ISREG(info.st_mode)) error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    if (error != 0) {
      if (descriptor_ >= 0) ::close(descriptor_);
      fail(error);
    }
    size_ = static_cast<std::uint64_t>(info.st_size);
  }
  ~RegularFile() { ::close(descriptor_); }
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  std::uint64_t size() const { return size_; }

  // Returns the next `count` bytes, or fewer at the end of the file.
  std::string next_bytes(std::size_t count) const {
    std::string bytes(count, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
      const ssize_t got = ::read(descriptor_, bytes.data() + filled, bytes.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(errno);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
  }

 private:
  [[noreturn]] void fail(int error) const {
    throw std::system_error(error, std::generic_category(), "'" + path_.string() + "'");
  }

  const std::filesystem::path& path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace

std::string why_unreadable(const std::system_error& fault) {
  const int error = fault.code().value();
  if (error == EISDIR) return "it is a folder, not a file";
  return error == EINVAL ? "it is a pipe or a device, not a regular file" : system_words(error);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const RegularFile file(path);
  std::uint64_t size = file.size();
  std::string bytes;
  if (size == 0) {  // empty, or one of the kernel's own files (/proc)
    max_bytes = std::min(max_bytes, kMaxWithoutSize);
    bytes = file.next_bytes(max_bytes + 1);
    size = bytes.size();
  }
  if (size > max_bytes)
    throw std::length_error("'" + path.string() + "' has " + std::to_string(size) +
                            " bytes, more than the limit of " + std::to_string(max_bytes));
  return file.size() == 0 ? bytes : file.next_bytes(size);
}

std::string first_bytes(const std::filesystem::path& path, std::size_t count) {
  return RegularFile(path).next_bytes(count);
}

}  // namespace kiln
