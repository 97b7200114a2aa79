#include "report/appended_file.h"

#include <fcntl.h>
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

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_ < 0) refuse(path_, errno);
}

AppendedFile::~AppendedFile() {
  ::close(file_);
}

void AppendedFile::append(std::string_view piece) {
  const off_t before = ::lseek(file_, 0, SEEK_END);
  const ssize_t written = ::write(file_, piece.data(), piece.size());
  if (written == static_cast<ssize_t>(piece.size())) return;
  const int reason = written < 0 ? errno : ENOSPC;
  if (written > 0 && ::ftruncate(file_, before) == 0) ::lseek(file_, before, SEEK_SET);
  refuse(path_, reason);
}

}  // namespace kiln
