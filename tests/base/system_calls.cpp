#include "base/system_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

void count_call() {
  if (kiln::test::calls_before_kill >= 0 && kiln::test::calls_before_kill-- == 0) ::raise(SIGKILL);
}

}  // namespace

extern "C" {

int fsync(int descriptor) {
  count_call();
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISDIR(info.st_mode)) return 0;
  std::error_code fault;
  kiln::test::synced_folders.push_back(
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), fault));
  errno = kiln::test::folder_sync_error;
  return errno == 0 ? 0 : -1;
}

int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

}  // extern "C"
