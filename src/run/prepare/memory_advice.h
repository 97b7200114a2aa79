// Checks whether a run has enough memory on its host, and if not, which batch size would fit. The
// kernel does not refuse memory but kills the process without a message, so the run warns
// beforehand.
#pragma once

#include <exception>
#include <string>

namespace kiln {

// The memory use of one of the ranks that share a host, in bytes.
struct MemoryUse {
  long long before = 0;     // resident size before the first step
  long long peak = 0;       // peak resident size up to the end of the first step
  long long available = 0;  // left after the first step, for all ranks of the host together
  long long to_come = 0;    // known future use: caches, copies of the weights
  int ranks_on_host = 1;
  int batch_size = 1;
  bool on_gpu = false;  // steps use GPU memory, so no fitting batch size is known
};

// The memory that a rank should have left after its first step: `to_come`, plus a tenth of its peak
// for what is unknown (validation, fragmentation).
long long memory_needed(const MemoryUse& use);

// The largest batch size of this rank with which memory_needed() would be left; 0 if none or
// unknown. Assumes that the memory taken by the first step, from `before` to `peak`, is
// proportional to the batch. Gradients and optimizer state are not, so this is an upper bound.
int batch_that_fits(const MemoryUse& use);

// One sentence if less than memory_needed() is left; otherwise empty.
std::string memory_warning(const MemoryUse& use);

// Watches a run's memory. One thread.
class MemoryWatch {
 public:
  // Create it before the first step. `plan` sets to_come, ranks_on_host, batch_size and on_gpu.
  explicit MemoryWatch(const MemoryUse& plan);

  // Call after each step. Returns memory_warning() after the first, otherwise empty.
  std::string after_step();

  // If `failure` means that memory ran out, an Error kModuleOutOfMemory that also says which batch
  // size may fit. Other failures are returned unchanged.
  std::exception_ptr advised(const std::exception_ptr& failure) const;

 private:
  MemoryUse use_;
  bool has_stepped_ = false;
};

}  // namespace kiln
