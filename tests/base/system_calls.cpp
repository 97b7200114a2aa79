#include "base/system_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

namespace {

using kiln::test::before_open, kiln::test::calls_before_failure, kiln::test::calls_before_kill,
    kiln::test::failure;

void count_call() {
  if (calls_before_kill >= 0 && calls_before_kill-- == 0) ::raise(SIGKILL);
}

// Whether this call is the one to fail; errno is set.
bool fails() {
  if (calls_before_failure < 0 || calls_before_failure-- > 0) return false;
  errno = failure == 0 ? ENOSPC : failure;
  return true;
}

}  // namespace

extern "C" {

int fsync(int descriptor) {
  count_call();
  if (fails()) return -1;
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISDIR(info.st_mode)) return 0;
  {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::error_code fault;
    kiln::test::synced_folders.push_back(
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), fault));
  }
  errno = kiln::test::folder_sync_error;
  return errno == 0 ? 0 : -1;
}

int rename(const char* from, const char* to) noexcept {
  count_call();
  if (fails()) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  count_call();
  if (fails()) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char* path) noexcept {
  count_call();
  if (fails()) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (fails()) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

// Only what makes a file counts.
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = has_mode ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (before_open != nullptr) {
    const auto* const act = std::exchange(before_open, nullptr);
    (*act)(path);
    before_open = act;
  }
  if ((flags & O_CREAT) != 0) {
    count_call();
    if (fails()) return -1;
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  if (descriptor > STDERR_FILENO) {
    count_call();
    const bool is_short = failure == 0 && calls_before_failure == 0;
    if (is_short && size > 1) return ::syscall(SYS_write, descriptor, bytes, size / 2);
    if (fails()) return -1;
  }
  return ::syscall(SYS_write, descriptor, bytes, size);
}

}  // extern "C"
