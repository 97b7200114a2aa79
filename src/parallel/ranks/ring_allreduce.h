// Ring all-reduce for large arrays, including bfloat16, for which MPI has no type.
#pragma once

#include <mpi.h>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "parallel/ranks/collective.h"

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
// MPI's blocking all-reduce; MPI's non-blocking one takes 1.5 times as long (bench/collective.sh).
// The data is split into one chunk per rank. First every chunk travels once around the ring and
// accumulates the ranks' values (reduce-scatter); then each finished chunk travels around again
// (all-gather). All ranks end with the same bits. Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009. For the MPI thread only.
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

}  // namespace kiln
