// Parcels in flight, split into segments: MPI transfers many concurrent requests faster than one
// large one. For the MPI thread only.
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

  explicit MpiParcels(MPI_Comm communicator);  // duplicates it; a collective
  void close();                                // before MPI_Finalize

  void start(const Parcel& parcel, std::uint64_t ticket);
  // Removes a parcel that is done and returns its ticket. If `status` is not MPI_SUCCESS, all have
  // failed.
  std::optional<std::uint64_t> take_done(int* status);
  // The parcel that was started first; nullptr if there is none.
  const Moving* oldest() const { return moving_.empty() ? nullptr : &moving_.front(); }
  bool any_is_soon() const;
  // Call after the process was suspended for `gap`: that time does not count as waiting.
  void forget(Clock::duration gap);

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::list<Moving> moving_;  // a list: MPI keeps the addresses
};

}  // namespace kiln
