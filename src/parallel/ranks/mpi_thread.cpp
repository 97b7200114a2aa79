#include "parallel/ranks/mpi_thread.h"

#include <unistd.h>

#include <limits>

#include "base/error.h"
#include "parallel/ranks/mpi_thread_state.h"

namespace kiln {

MpiThread::MpiThread(StallWatch::Limits limits, std::function<void(const std::string&)> warn)
    : state_(std::make_unique<State>(limits, std::move(warn))) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->ready; });
}

MpiThread::~MpiThread() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

const MpiThread::Ranks& MpiThread::ranks() const {
  return state_->ranks;
}

std::uint64_t MpiThread::start(const Collective& collective) {
  if (collective.count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw InternalError("a collective of more than 2^31 elements");
  std::uint64_t ticket = kDone;
  {
    const std::lock_guard lock(state_->mutex);
    state_->throw_if_failed();
    ticket = ++state_->places;
    state_->queued.push_back({collective, ticket});
    state_->under_way.insert(ticket);
  }
  state_->wake.notify_all();
  return ticket;
}

std::uint64_t MpiThread::post(const Parcel& parcel) {
  if (parcel.bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw InternalError("a parcel of more than 2^31 bytes");
  std::uint64_t ticket = kDone;
  {
    const std::lock_guard lock(state_->mutex);
    state_->throw_if_failed();
    ticket = State::kFirstParcel + ++state_->num_parcels;
    state_->queued_parcels.push_back({parcel, ticket});
    state_->under_way.insert(ticket);
  }
  state_->wake.notify_all();
  return ticket;
}

void MpiThread::wait(std::uint64_t ticket) {
  std::unique_lock lock(state_->mutex);
  ++state_->waiters;
  state_->wake.notify_all();
  const auto finished = [&] { return !state_->under_way.contains(ticket); };
  state_->changed.wait(lock, [&] { return finished() || state_->fault; });
  --state_->waiters;
  if (!finished()) state_->throw_if_failed();
}

void MpiThread::throw_if_failed() const {
  const std::lock_guard lock(state_->mutex);
  state_->throw_if_failed();
}

std::uint64_t MpiThread::count_elsewhere() {
  const std::lock_guard lock(state_->mutex);
  return state_->started = ++state_->places;
}

std::vector<PeerStatus> MpiThread::query_peers() {
  std::unique_lock lock(state_->mutex);
  state_->snapshot_wanted = true;
  state_->peer_snapshot.reset();
  state_->wake.notify_all();
  state_->changed.wait_for(lock, std::chrono::seconds(2),
                           [this] { return state_->peer_snapshot.has_value(); });
  return state_->peer_snapshot.value_or(
      std::vector<PeerStatus>(static_cast<std::size_t>(state_->ranks.size)));
}

double MpiThread::seconds_of(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->seconds[name];
}

std::string MpiThread::phase() const {
  return state_->now(state_->phase);
}

void MpiThread::set_phase(const std::string& phase, bool patient) {
  const std::lock_guard lock(state_->mutex);
  state_->phase = phase;
  state_->patient = patient;
}

void MpiThread::set_host_names(std::vector<std::string> hosts) {
  const std::lock_guard lock(state_->mutex);
  state_->hosts = std::move(hosts);
}

bool MpiThread::announce_failure(const std::string& text, int exit_code) {
  std::unique_lock lock(state_->mutex);
  if (state_->announced) return *state_->announced;
  if (state_->lowest_failure) return *(state_->announced = false);
  state_->to_announce = RankFailure{state_->ranks.rank, exit_code, text};
  state_->wake.notify_all();
  const auto lower_failed = [this] {
    return state_->lowest_failure && *state_->lowest_failure < state_->ranks.rank;
  };
  state_->announced = !state_->changed.wait_for(lock, std::chrono::milliseconds(500), lower_failed);
  return *state_->announced;
}

void MpiThread::abort(int exit_code) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->abort_code = exit_code;
  }
  state_->wake.notify_all();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  ::_exit(exit_code);
}

}  // namespace kiln
