#include "parallel/mpi_lane.h"

#include <algorithm>
#include <utility>

namespace kiln {

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
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> alone = now - std::max(front.begin, last_end_);
  last_end_ = now;
  return Done{std::move(front.what), front.place, alone.count()};
}

void MpiLane::forget(Clock::duration gap) {
  for (Running& each : running_) each.begin += gap;
}

}  // namespace kiln
