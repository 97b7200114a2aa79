#include "base/kernel_lock.h"

#include <sys/file.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/system.h"

namespace kiln {
namespace {

constexpr double kPatienceSeconds = 3;

}  // namespace

LockResult lock_soon(int descriptor, const std::function<void()>& waiting) {
  const Stopwatch watch;
  for (bool is_first = true; ::flock(descriptor, LOCK_EX | LOCK_NB) != 0; is_first = false) {
    if (errno != EWOULDBLOCK) return LockResult::kNoLocks;
    if (watch.seconds() > kPatienceSeconds) return LockResult::kInUse;
    if (is_first && waiting) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return LockResult::kTaken;
}

HeldLock::~HeldLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace kiln
