// The system calls that write files and put them in place, for programs that link system_calls.cpp:
// one can fail, or be where the process is killed. Nothing is really synced.
#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <vector>

namespace kiln::test {

inline int calls_before_kill = -1;  // negative: never
inline int folder_sync_error = 0;   // an errno
inline std::vector<std::filesystem::path> synced_folders;

// One call to fail; also counts what makes and writes files.
inline int calls_before_failure = -1;  // negative: none fails
inline int failure = 0;  // its errno; 0: a write stops half way, and the next one fails

// Called before a file is opened, but not for those that it opens itself.
inline const std::function<void(const std::filesystem::path&)>* before_open = nullptr;

// Runs `action` in a process of its own, which is killed before the call after `num_calls`. False:
// it got to its end.
template <typename Action>
bool is_killed_after(int num_calls, Action&& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls_before_kill = num_calls;
    action();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

// While it lives, permissions bind this thread, also where it is root's.
class BoundByPermissions {
 public:
  BoundByPermissions() {
    ::syscall(SYS_capget, &header_, before_.data());
    auto none = before_;
    for (__user_cap_data_struct& half : none) half.effective = 0;
    ::syscall(SYS_capset, &header_, none.data());
  }
  ~BoundByPermissions() { ::syscall(SYS_capset, &header_, before_.data()); }
  BoundByPermissions(const BoundByPermissions&) = delete;
  BoundByPermissions& operator=(const BoundByPermissions&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_{};
};

}  // namespace kiln::test
