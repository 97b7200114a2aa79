#include "parallel/ranks/mpi_collectives.h"

#include <algorithm>
#include <utility>

#include "parallel/ranks/ring_allreduce.h"

namespace kiln {
namespace {

MPI_Datatype type_of(Element element) {
  switch (element) {
    case Element::kFloat32:
      return MPI_FLOAT;
    case Element::kFloat64:
      return MPI_DOUBLE;
    case Element::kInt64:
      return MPI_INT64_T;
    case Element::kBFloat16:
      return MPI_UINT16_T;
    case Element::kByte:
      return MPI_BYTE;
  }
  return MPI_BYTE;
}

constexpr std::size_t kLeastRing = 64 << 10;  // elements; below, MPI's all-reduce is faster

void add_for_mpi(void* from, void* to, int* count, MPI_Datatype*) {
  add_bfloat16(to, from, static_cast<std::size_t>(*count));
}

MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(communicator, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

}  // namespace

std::string mpi_error_text(int status) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  return text;
}

bool PendingCollective::done(int* status) {
  if (ring_) return ring_->advance(status);
  int done = 0;
  *status = MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

MpiCollectives::MpiCollectives(MPI_Comm communicator)
    : collectives_(duplicate(communicator)), rings_(duplicate(communicator)) {
  MPI_Op_create(add_for_mpi, /*commute=*/1, &bfloat16_sum_);
}

void MpiCollectives::close() {
  MPI_Op_free(&bfloat16_sum_);
  MPI_Comm_free(&rings_);
  MPI_Comm_free(&collectives_);
}

PendingCollective MpiCollectives::start(const Collective& what) const {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(what.count);
  const MPI_Datatype type = type_of(what.element);
  switch (what.kind) {
    case Collective::Kind::kAllReduce:
      if (what.count >= kLeastRing) return PendingCollective(RingAllReduce(rings_, what));
      MPI_Iallreduce(MPI_IN_PLACE, what.data, count, type,
                     what.element == Element::kBFloat16 ? bfloat16_sum_ : MPI_SUM, collectives_,
                     &request);
      break;
    case Collective::Kind::kMpiAllReduce:
      MPI_Allreduce(MPI_IN_PLACE, what.data, count, type, MPI_SUM, collectives_);
      break;
    case Collective::Kind::kBroadcast:
      MPI_Ibcast(what.data, count, type, /*root=*/0, collectives_, &request);
      break;
    case Collective::Kind::kGather:
      MPI_Iallgather(what.data, count, type, what.gathered, count, type, collectives_, &request);
      break;
    case Collective::Kind::kBarrier:
      MPI_Ibarrier(collectives_, &request);
      break;
  }
  return PendingCollective(request);
}

MpiLane::MpiLane(MPI_Comm communicator) : collectives_(communicator) {}

void MpiLane::close() {
  collectives_.close();
}

void MpiLane::start(const Collective& what, std::uint64_t place) {
  const Clock::time_point begin = Clock::now();
  running_.push_back({what, place, begin, collectives_.start(what)});
}

std::optional<MpiLane::Done> MpiLane::take_done(int* status) {
  if (running_.empty()) return {};
  const bool done = running_.front().pending.done(status);
  if (!done || *status != MPI_SUCCESS) return {};
  Running front = std::move(running_.front());
  running_.pop_front();
  const Clock::time_point now = Clock::now(), begin = std::max(front.begin, last_end_);
  const std::chrono::duration<double> alone = now - begin;
  if (front.what.timeline) front.what.timeline->add(Timeline::kSums, front.what.name, begin, now);
  last_end_ = now;
  return Done{std::move(front.what), front.place, alone.count()};
}

void MpiLane::forget(Clock::duration gap) {
  for (Running& each : running_) each.begin += gap;
}

}  // namespace kiln
