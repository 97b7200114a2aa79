// All-reduce and broadcast of tensors. All ranks make the same calls in the same order, with
// tensors of the same length and type. Every call has a deadline: Error kTimeoutOccured naming the
// collective, or FailedElsewhere if another rank failed; the job cannot continue after either.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/timeline.h"
#include "parallel/ranks/world.h"

namespace kiln {

class Communicator {
 public:
  using Ticket = std::uint64_t;

  virtual ~Communicator() = default;

  virtual int size() const = 0;  // number of ranks
  // Starts to sum `values` over the ranks in place and returns. `values` is contiguous, float32,
  // float64, int64 or bfloat16, and must not be touched before wait().
  virtual Ticket all_reduce(const at::Tensor& values) = 0;
  // The result is available: to the calling thread, or to later work on the device's current
  // stream. Does not wait for sums started later.
  virtual void wait(Ticket ticket) = 0;
  // Rank 0's values everywhere; contiguous. Ready on return, as after wait().
  virtual void broadcast(const at::Tensor& values) = 0;
  // Seconds during which sums were in flight, since the start; empty if not measured.
  virtual std::optional<double> all_reduce_seconds() const { return {}; }
  // From now on sums are noted there, where the host can tell when they are done: those of NCCL
  // are not.
  virtual void trace(std::shared_ptr<Timeline> /*timeline*/) {}
  // A second lane over the same ranks, for sums that must not wait for those in flight here. All
  // ranks call it; calls must be ordered only within each lane. Messages call its sums `sum_name`,
  // a literal. There is only one second lane: further calls share it.
  virtual std::unique_ptr<Communicator> second_lane(const char* sum_name) = 0;
};

// For one rank: every call returns immediately and leaves tensors unchanged.
std::unique_ptr<Communicator> make_local_communicator();

// For tensors on the CPU. `mpi` must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(MpiThread& mpi);

}  // namespace kiln
