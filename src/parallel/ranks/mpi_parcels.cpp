#include "parallel/ranks/mpi_parcels.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr std::size_t kSegment = 512 << 10;  // bytes, as in ring_allreduce.cpp

}  // namespace

MpiParcels::MpiParcels(MPI_Comm communicator) {
  MPI_Comm_dup(communicator, &communicator_);
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
}

void MpiParcels::close() {
  MPI_Comm_free(&communicator_);
}

void MpiParcels::start(const Parcel& parcel, std::uint64_t ticket) {
  Moving& added = moving_.emplace_back();
  added.what = parcel;
  added.ticket = ticket;
  added.begin = Clock::now();
  const int rank = parcel.rank == Parcel::kAnyRank ? MPI_ANY_SOURCE : parcel.rank;
  for (std::size_t at = 0; at < parcel.bytes; at += kSegment) {
    char* begin = static_cast<char*>(parcel.data) + at;
    const int count = static_cast<int>(std::min(kSegment, parcel.bytes - at));
    MPI_Request& request = added.segments.emplace_back();
    if (parcel.kind == Parcel::Kind::kSend)
      MPI_Isend(begin, count, MPI_BYTE, rank, parcel.tag, communicator_, &request);
    else
      MPI_Irecv(begin, count, MPI_BYTE, rank, parcel.tag, communicator_, &request);
  }
}

std::optional<std::uint64_t> MpiParcels::take_done(int* status) {
  for (auto each = moving_.begin(); each != moving_.end(); ++each) {
    int done = 0;
    *status = MPI_Testall(static_cast<int>(each->segments.size()), each->segments.data(), &done,
                          MPI_STATUSES_IGNORE);
    if (*status != MPI_SUCCESS) return {};
    if (done == 0) continue;
    const std::uint64_t ticket = each->ticket;
    moving_.erase(each);
    return ticket;
  }
  return {};
}

bool MpiParcels::any_is_soon() const {
  return std::any_of(moving_.begin(), moving_.end(),
                     [](const Moving& each) { return each.what.is_soon; });
}

void MpiParcels::forget(Clock::duration gap) {
  for (Moving& each : moving_) each.begin += gap;
}

}  // namespace kiln
