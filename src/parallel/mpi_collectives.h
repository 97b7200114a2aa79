// Collectives as something that can be polled. For the MPI thread alone.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>

#include "parallel/collective.h"
#include "parallel/ring_sum.h"

namespace kiln {

// One collective on its way.
class PendingCollective {
 public:
  explicit PendingCollective(MPI_Request request) : request_(request) {}
  explicit PendingCollective(RingSum ring) : ring_(std::move(ring)) {}

  // True when it is done; a status other than MPI_SUCCESS ends it.
  bool done(int* status);

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::optional<RingSum> ring_;
};

// What MPI says of a status that is not MPI_SUCCESS.
std::string mpi_error_text(int status);

class MpiCollectives {
 public:
  explicit MpiCollectives(MPI_Comm communicator);  // keeps duplicates
  void close();                                    // before MPI_Finalize

  PendingCollective start(const Collective& what) const;

 private:
  MPI_Comm collectives_ = MPI_COMM_NULL, rings_ = MPI_COMM_NULL;
  MPI_Op bfloat16_sum_ = MPI_OP_NULL;
};

}  // namespace kiln
