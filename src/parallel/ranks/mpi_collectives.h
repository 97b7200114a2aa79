// Collectives that can be polled, and lanes that run them in order. For the MPI thread only.
#pragma once

#include <mpi.h>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "parallel/ranks/collective.h"
#include "parallel/ranks/ring_allreduce.h"

namespace kiln {

// One collective in flight.
class PendingCollective {
 public:
  explicit PendingCollective(MPI_Request request) : request_(request) {}
  explicit PendingCollective(RingAllReduce ring) : ring_(std::move(ring)) {}

  // Returns true when it is done. It has failed if `status` is not MPI_SUCCESS.
  bool done(int* status);

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::optional<RingAllReduce> ring_;
};

// MPI's text for a status other than MPI_SUCCESS.
std::string mpi_error_text(int status);

class MpiCollectives {
 public:
  explicit MpiCollectives(MPI_Comm communicator);  // duplicates it; a collective
  void close();                                    // before MPI_Finalize

  PendingCollective start(const Collective& what) const;

 private:
  MPI_Comm collectives_ = MPI_COMM_NULL, rings_ = MPI_COMM_NULL;
  MPI_Op bfloat16_sum_ = MPI_OP_NULL;
};

// Collectives over separate MPI communicators: all start immediately, and they finish in order. For
// the MPI thread only.
class MpiLane {
 public:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Collective what;
    std::uint64_t place = 0;  // among all collectives of this rank
    Clock::time_point begin;
    PendingCollective pending;
  };
  struct Done {
    Collective what;
    std::uint64_t place = 0;
    double seconds = 0;  // time spent as the oldest of its lane
  };

  explicit MpiLane(MPI_Comm communicator);  // duplicates it; a collective
  void close();                             // before MPI_Finalize

  void start(const Collective& what, std::uint64_t place);
  // Removes and returns the oldest collective if it is done. It has failed if `status` is not
  // MPI_SUCCESS.
  std::optional<Done> take_done(int* status);
  const Running* oldest() const { return running_.empty() ? nullptr : &running_.front(); }
  // Call after the process was suspended for `gap`: that time does not count as waiting.
  void forget(Clock::duration gap);

 private:
  MpiCollectives collectives_;
  std::deque<Running> running_;
  Clock::time_point last_end_;
};

}  // namespace kiln
