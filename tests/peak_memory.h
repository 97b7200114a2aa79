// How much memory a reader takes at most, measured in a process of its own.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace kiln::test {

struct ChildUse {
  std::size_t peak_mib = 0;
  double cpu_seconds = 0;
};

// Forks, so call it before threads are started. Throws if `action` throws or crashes.
template <typename Action>
ChildUse use_of_child(Action&& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      action();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = -1;
  struct rusage usage {};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0)
    throw std::runtime_error("the measured process failed, status " + std::to_string(status));
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {static_cast<std::size_t>(usage.ru_maxrss) >> 10,
          seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_ADDRESS_SANITIZER
#endif
#endif
#ifdef KILN_ADDRESS_SANITIZER
constexpr std::size_t kQuarantineMib = 256;  // of freed memory that AddressSanitizer keeps
#else
constexpr std::size_t kQuarantineMib = 0;
#endif

// What `action` adds to the memory that a process has from the beginning.
template <typename Action>
std::size_t peak_mib_of(Action&& action) {
  const std::size_t before = use_of_child([] {}).peak_mib + kQuarantineMib;
  const std::size_t peak = use_of_child(action).peak_mib;
  return peak > before ? peak - before : 0;
}

}  // namespace kiln::test
