// Collectives as non-blocking MPI calls. For the MPI thread alone.
#pragma once

#include <mpi.h>

#include "parallel/collective.h"

namespace kiln {

class MpiCollectives {
 public:
  explicit MpiCollectives(MPI_Comm communicator);  // keeps a duplicate
  void close();                                    // before MPI_Finalize

  MPI_Comm communicator() const { return communicator_; }
  // The request is done when the collective is; errors come from testing it.
  MPI_Request start(const Collective& what) const;

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MPI_Op bfloat16_sum_ = MPI_OP_NULL;
};

}  // namespace kiln
