// Whether a run has enough memory on its host, and which batch would fit where it has not. The
// kernel does not refuse memory: it kills, without a word, so it is said beforehand.
#pragma once

#include <exception>
#include <string>

namespace kiln {

// In bytes, of one rank among those that share the memory of a host.
struct MemoryUse {
  long long before = 0;     // resident before the first step
  long long peak = 0;       // resident at most, up to the end of the first step
  long long available = 0;  // left after the first step, to all ranks of the host together
  long long to_come = 0;    // known to be taken later: caches, copies of the weights
  int ranks_on_host = 1;
  int batch_size = 1;
  bool on_gpu = false;  // steps take the GPU's memory: no batch is known to fit
};

// What a rank should have left after its first step: what is to come, and a tenth of its peak for
// what cannot be known (validation, fragments).
long long memory_needed(const MemoryUse& use);

// The largest batch of this rank with which memory_needed() would be left; 0: none, or not known.
// What the first step took, from `before` to `peak`, counts as proportional to the batch. Gradients
// and the optimizer's state are not, so this is at most what fits.
int batch_that_fits(const MemoryUse& use);

// One sentence where less than memory_needed() is left; else empty.
std::string memory_warning(const MemoryUse& use);

// Follows a run from before its first step. One thread.
class MemoryWatch {
 public:
  // Before the first step. `plan` has to_come, ranks_on_host, batch_size and on_gpu.
  explicit MemoryWatch(const MemoryUse& plan);

  // After each step; of the first, memory_warning().
  std::string after_step();

  // Where memory ran out: Error kModuleOutOfMemory that also says which batch may fit. Other
  // failures stay.
  std::exception_ptr advised(const std::exception_ptr& failure) const;

 private:
  MemoryUse use_;
  bool has_stepped_ = false;
};

}  // namespace kiln
