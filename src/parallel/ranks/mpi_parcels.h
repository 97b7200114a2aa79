// Parcels on their way, in segments: MPI moves many requests at once faster than a large one. For
// the MPI thread only.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "parallel/ranks/parcel.h"

namespace kiln {

class MpiParcels {
 public:
  using Clock = std::chrono::steady_clock;
  struct Moving {
    Parcel what;
    std::uint64_t ticket = 0;
    Clock::time_point begin;
    std::vector<MPI_Request> segments = {};
  };

  explicit MpiParcels(MPI_Comm communicator);  // keeps a duplicate; collective
  void close();                                // before MPI_Finalize

  void start(const Parcel& parcel, std::uint64_t ticket);
  // The ticket of one that is done; a status other than MPI_SUCCESS ends them all.
  std::optional<std::uint64_t> take_done(int* status);
  // The one that was started first; nullptr: there is none.
  const Moving* oldest() const { return moving_.empty() ? nullptr : &moving_.front(); }
  bool any_is_soon() const;
  // The process was suspended for this long, which does not count as waiting.
  void forget(Clock::duration gap);

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::list<Moving> moving_;  // a list: MPI keeps the addresses
};

}  // namespace kiln
