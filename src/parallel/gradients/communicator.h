// All-reduce and broadcast of tensors. All ranks make the same calls in the same order, with
// tensors of the same length and type. Every call has a deadline: it throws Error kTimeoutOccured
// naming the collective, or FailedElsewhere if another rank failed. The job cannot continue after
// either.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/timeline.h"
#include "parallel/ranks/world.h"

namespace kiln {

class Communicator {
 public:
  using Ticket = std::uint64_t;

  virtual ~Communicator() = default;

  virtual int size() const = 0;  // number of ranks
  // Starts summing `values` over the ranks in place and returns immediately. `values` must be
  // contiguous and float32, float64 or int64, and must not be touched before wait().
  virtual Ticket all_reduce(const at::Tensor& values) = 0;
  // After this call the result is available to the calling thread, or on a GPU to later work on the
  // current stream. Does not wait for sums started later.
  virtual void wait(Ticket ticket) = 0;
  // Copies rank 0's `values`, which must be contiguous, to all ranks. Available on return, as after
  // wait().
  virtual void broadcast(const at::Tensor& values) = 0;
  // Whether sums should run while the device computes. Not where all ranks are on one host and its
  // processors make the sums: these then only take them from the threads that compute.
  virtual bool overlaps() const { return true; }
  // Total seconds during which sums were in flight; empty if not measured.
  virtual std::optional<double> all_reduce_seconds() const { return {}; }
  // From now on adds each sum to the timeline. Does nothing for NCCL, whose sums complete without
  // the host noticing.
  virtual void trace(std::shared_ptr<Timeline> /*timeline*/) {}
  // A second lane over the same ranks, for sums that must not wait for those in flight here. All
  // ranks call it. Calls need the same order on all ranks only within a lane. `sum_name`, a string
  // literal, names the lane's sums in messages. There is only one second lane: further calls share
  // it.
  virtual std::unique_ptr<Communicator> second_lane(const char* sum_name) = 0;
};

// What `library` calls the tensor's type: one of `types`, for float32, float64 and int64.
template <typename Type>
Type type_among(const at::Tensor& values, const std::array<Type, 3>& types,
                const std::string& library) {
  constexpr std::array kKnown = {at::kFloat, at::kDouble, at::kLong};
  const auto known = std::ranges::find(kKnown, values.scalar_type());
  if (known == kKnown.end())
    throw InternalError("unsupported tensor type for an " + library + " collective");
  return types[static_cast<std::size_t>(known - kKnown.begin())];
}

// For a single rank: every call returns immediately and leaves tensors unchanged.
std::unique_ptr<Communicator> make_local_communicator();

// For tensors on the CPU. `mpi` must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(MpiThread& mpi);

}  // namespace kiln
