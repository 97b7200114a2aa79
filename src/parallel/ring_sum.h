// A sum over all ranks as a ring of point-to-point messages, polled. For large sums it is as fast
// as MPI's own blocking one, where MPI's non-blocking one takes half as long again
// (bench/collective.sh).
//
// The data is cut into as many chunks as there are ranks. First every chunk travels once around the
// ring and gathers the ranks' values on its way; then each finished chunk travels around once more.
// All ranks end with the same bits. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
// for clusters of workstations", 2009. For the MPI thread alone.
#pragma once

#include <mpi.h>

#include <vector>

#include "parallel/collective.h"

namespace kiln {

class RingSum {
 public:
  // `what` is a kSum; `communicator` is used for nothing but ring sums, one after the other.
  RingSum(MPI_Comm communicator, const Collective& what);

  // Does what can be done now. True when the sum is there; a status other than MPI_SUCCESS ends it.
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
  int step_ = 0;  // size - 1 that sum, then size - 1 that spread
  bool posted_ = false;
  std::vector<char> incoming_;
  std::vector<Part> segments_;  // of the chunk that arrives in this step
  std::vector<MPI_Request> receives_, sends_;
  std::size_t arrived_ = 0;
};

}  // namespace kiln
