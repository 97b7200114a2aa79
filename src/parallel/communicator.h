// Sums and copies of tensors over all ranks. All ranks make the same calls in the same order, with
// tensors of the same length and type. Every call has a deadline: Error kTimeoutOccured naming the
// collective, and FailedElsewhere when another rank failed; the job cannot go on after either.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "parallel/world.h"

namespace kiln {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Starts to sum `values` over the ranks in place and returns. `values` is contiguous, float32,
  // float64, int64 or bfloat16, and must not be touched before finish().
  virtual void start_sum(const at::Tensor& values) = 0;
  // All sums started are in place: for the calling thread, or for later work on the device's
  // current stream.
  virtual void finish() = 0;
  // Rank 0's values everywhere; contiguous. Ready as after finish().
  virtual void broadcast(const at::Tensor& values) = 0;
  // Seconds in which sums were under way, since the start; empty where they are not measured.
  virtual std::optional<double> sum_seconds() const { return {}; }
};

// For tensors on the CPU. `mpi` must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(MpiThread& mpi);

}  // namespace kiln
