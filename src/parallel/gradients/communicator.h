// Sums and copies of tensors over all ranks. All ranks make the same calls in the same order, with
// tensors of the same length and type. Every call has a deadline: Error kTimeoutOccured naming the
// collective, and FailedElsewhere when another rank failed; the job cannot go on after either.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "parallel/ranks/world.h"

namespace kiln {

class Communicator {
 public:
  using Ticket = std::uint64_t;

  virtual ~Communicator() = default;

  virtual int size() const = 0;  // how many ranks
  // Starts to sum `values` over the ranks in place and returns. `values` is contiguous, float32,
  // float64, int64 or bfloat16, and must not be touched before wait().
  virtual Ticket all_reduce(const at::Tensor& values) = 0;
  // That sum is in place: for the calling thread, or for later work on the device's current stream.
  // Waits for no sum started after it.
  virtual void wait(Ticket ticket) = 0;
  // Rank 0's values everywhere; contiguous. Ready on return, as after wait().
  virtual void broadcast(const at::Tensor& values) = 0;
  // Seconds in which sums were under way, since the start; empty where they are not measured.
  virtual std::optional<double> all_reduce_seconds() const { return {}; }
  // The same ranks once more, for sums that must not wait for those under way here. All ranks call
  // it; the order of calls counts in each lane alone. Messages call its sums `sum_name`, a literal.
  // There is one second lane: who asks again shares it.
  virtual std::unique_ptr<Communicator> second_lane(const char* sum_name) = 0;
};

// For one rank: every call returns at once, and tensors stay as they are.
std::unique_ptr<Communicator> make_local_communicator();

// For tensors on the CPU. `mpi` must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(MpiThread& mpi);

}  // namespace kiln
