// A lock on an open file or folder that the kernel keeps, so that a killed program leaves none.
#pragma once

#include <functional>
#include <utility>

namespace kiln {

enum class LockResult {
  kTaken,
  kInUse,    // another program holds it
  kNoLocks,  // the file system has no locks
};

// Locks an open file or folder until its descriptor is closed. If another program holds the lock,
// calls `waiting` and then waits some seconds: the ranks of a job whose launcher was killed end a
// moment later, so a job that is restarted at once finds them still running.
LockResult lock_soon(int descriptor, const std::function<void()>& waiting);

// Closes its descriptor, and so releases the lock.
class HeldLock {
 public:
  HeldLock() = default;
  explicit HeldLock(int descriptor) : descriptor_(descriptor) {}
  HeldLock(HeldLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HeldLock& operator=(HeldLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~HeldLock();

 private:
  int descriptor_ = -1;
};

}  // namespace kiln
