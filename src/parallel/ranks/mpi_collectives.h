// Collectives that can be polled, among them a ring all-reduce for large arrays and bfloat16, for
// which MPI has no type; and lanes that run them in order. For the MPI thread only.
#pragma once

#include <mpi.h>

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "parallel/ranks/mpi_thread.h"

namespace kiln {

// sums[i] += more[i] in bfloat16, the upper half of float32: adds in float32 and rounds to nearest,
// ties to even. NaN stays NaN.
inline void add_bfloat16(void* sums, const void* more, std::size_t count) {
  const auto widened = [](std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
  };
  auto* to = static_cast<std::uint16_t*>(sums);
  const auto* from = static_cast<const std::uint16_t*>(more);
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = widened(to[i]) + widened(from[i]);
    const auto bits = std::bit_cast<std::uint32_t>(sum);
    const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    to[i] = static_cast<std::uint16_t>(sum != sum ? 0x7FC0 : rounded);
  }
}

// An all-reduce as a ring of point-to-point messages, polled. For large arrays it is as fast as
// MPI's blocking all-reduce; MPI's non-blocking one takes 1.5 times as long (`kiln_bench mpi`).
// The data is split into one chunk per rank. First every chunk travels once around the ring and
// accumulates the ranks' values (reduce-scatter); then each finished chunk travels around again
// (all-gather). All ranks end with the same bits. Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009.
class RingAllReduce {
 public:
  // `what` must be a kAllReduce. `communicator` must be used only for ring sums, one at a time.
  RingAllReduce(MPI_Comm communicator, const Collective& what);

  // Makes progress without blocking. Returns true when the sum is complete. It has failed if
  // `status` is not MPI_SUCCESS.
  bool advance(int* status);

 private:
  struct Part {
    char* begin;
    std::size_t bytes;
  };
  Part chunk(int index) const;
  void post_step();
  void add(const Part& segment, const char* received) const;

  MPI_Comm communicator_;
  Collective what_;
  int rank_ = 0, size_ = 1;
  std::size_t element_bytes_ = 1, chunk_bytes_ = 0;
  int step_ = 0;  // size - 1 steps of reduce-scatter, then size - 1 of all-gather
  bool posted_ = false;
  std::vector<char> incoming_;
  std::vector<Part> segments_;  // of the chunk received in this step
  std::vector<MPI_Request> receives_, sends_;
  std::size_t arrived_ = 0;
};

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

// Collectives over separate MPI communicators: all start immediately, and they finish in order.
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
