#include "parallel/ranks/mpi_thread.h"

#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "parallel/ranks/mpi_traffic.h"

namespace kiln {

using Clock = std::chrono::steady_clock;

// State shared by the MPI thread and the threads that use it.
struct MpiThread::State {
  State(StallLimits limits, std::function<void(const std::string&)> warn)
      : stall(limits, std::move(warn)), thread([this] { run(); }) {}

  void run() {
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // so that short sleeps are short
    open();
    {
      const std::lock_guard lock(mutex);
      ready = true;
    }
    changed.notify_all();
    for (;;) {
      poll_once();
      const std::lock_guard lock(mutex);
      if (stopping && under_way.empty()) break;
    }
    messages->close();
    parcels->close();
    for (MpiLane& lane : lanes) lane.close();
    MPI_Finalize();
  }

  void open() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    for (std::size_t i = 0; i < kNumLanes; ++i) lanes.emplace_back(MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
    MPI_Comm neighbors = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks.rank, MPI_INFO_NULL,
                        &neighbors);
    MPI_Comm_rank(neighbors, &ranks.local_rank);
    MPI_Comm_size(neighbors, &ranks.local_size);
    MPI_Comm_free(&neighbors);
    const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
    crowding = std::max(1, ranks.local_size / static_cast<int>(std::max(1L, processors)));
    messages.emplace(MPI_COMM_WORLD);
    parcels.emplace(MPI_COMM_WORLD);
  }

  void poll_once() {
    handle_requests();
    start_queued();
    for (MpiLane& lane : lanes) finish(lane);
    finish_parcels();
    receive_status();
    watch();
    idle();
  }

  void start_queued() {
    std::deque<Queued<Collective>> taken;
    std::deque<Queued<Parcel>> taken_parcels;
    {
      const std::lock_guard lock(mutex);
      if (fault || (queued.empty() && queued_parcels.empty())) return;
      taken.swap(queued);
      taken_parcels.swap(queued_parcels);
      if (!taken.empty()) started = std::max(started, taken.back().ticket);
    }
    num_yields = 0;
    for (const auto& [call, place] : taken)
      lanes[static_cast<std::size_t>(call.lane)].start(call, place);
    for (const auto& [parcel, ticket] : taken_parcels) parcels->start(parcel, ticket);
  }

  void finish(MpiLane& lane) {
    int status = MPI_SUCCESS;
    while (const std::optional<MpiLane::Done> done = lane.take_done(&status)) {
      {
        const std::lock_guard lock(mutex);
        under_way.erase(done->place);
        seconds[done->what.name] += done->seconds;
      }
      changed.notify_all();
    }
    if (status != MPI_SUCCESS)
      fail(status, std::string("The ") + lane.oldest()->what.name + " over all ranks");
  }

  void finish_parcels() {
    int status = MPI_SUCCESS;
    while (const std::optional<std::uint64_t> done = parcels->take_done(&status)) {
      {
        const std::lock_guard lock(mutex);
        under_way.erase(*done);
      }
      changed.notify_all();
    }
    if (status != MPI_SUCCESS) fail(status, "A message between two ranks");
  }

  // Of all lanes.
  const MpiLane::Running* oldest() const {
    const MpiLane::Running* found = nullptr;
    for (const MpiLane& lane : lanes) {
      const MpiLane::Running* candidate = lane.oldest();
      if (candidate != nullptr && (found == nullptr || candidate->place < found->place))
        found = candidate;
    }
    return found;
  }

  // Whether a large collective, or a parcel that the other rank handles soon, is in flight.
  bool moves_much() const {
    const MpiLane::Running* front = oldest();
    return (front != nullptr && front->what.count > kLarge) || parcels->any_is_soon();
  }

  // Queries the peers while a collective or parcel is waiting, warns if it waits long, and fails at
  // the deadline. Time in suspension does not count.
  void watch() {
    const Clock::time_point turn = Clock::now();  // read once: SIGSTOP may come between two reads
    if (const Clock::duration gap = suspension.turn(turn); gap != Clock::duration::zero()) {
      for (MpiLane& lane : lanes) lane.forget(gap);
      parcels->forget(gap);
      messages->forget(gap);
    }
    {
      const std::lock_guard lock(mutex);
      if (fault) return;
    }
    const MpiLane::Running* front = oldest();
    const MpiParcels::Moving* parcel = parcels->oldest();
    if (front == nullptr && parcel == nullptr) return;
    const std::uint64_t ticket = front != nullptr ? front->place : parcel->ticket;
    if (std::exchange(watched, ticket) != ticket) stall.begin();
    const Clock::time_point begin = front != nullptr ? front->begin : parcel->begin;
    const double waited = std::chrono::duration<double>(turn - begin).count();
    if (stall.asks(waited)) messages->ask();
    if (!stall.judges(waited)) return;
    const std::vector<std::string> names = now(hosts);
    const std::uint64_t place = front != nullptr ? front->place : 0;  // parcels have no place
    try {
      stall.judge(front != nullptr ? front->what.name : parcel->what.name, waited,
                  {messages->peers(), names, ranks.rank, place}, now(phase));
    } catch (const Error&) {
      fail(std::current_exception());
    }
  }

  // Processes messages from the other ranks. The failure of another rank ends every wait on this
  // one.
  void receive_status() {
    PeerStatus mine;
    {
      const std::lock_guard lock(mutex);
      mine = {.started = started, .patient = patient, .phase = phase, .last_seen = {}};
    }
    if (const MpiLane::Running* front = oldest()) {
      mine.place = front->place;
      mine.collective = front->what.name;
    }
    messages->poll(mine);
    send_phase(mine);
    take_peer_snapshot();
    const std::optional<RankFailure>& failure = messages->failure();
    if (!failure) return;
    const std::vector<std::string> names = now(hosts);
    const auto rank_index = static_cast<std::size_t>(failure->rank);
    {
      // Before fail(): the thread that it wakes must know which rank failed.
      const std::lock_guard lock(mutex);
      lowest_failure = failure->rank;
    }
    fail(std::make_exception_ptr(
        FailedElsewhere("rank " + std::to_string(failure->rank) +
                            (rank_index < names.size() ? " on host " + names[rank_index] : ""),
                        failure->text, failure->exit_code)));
  }

  // Sends a changed phase to all ranks, unasked but not too often, so that they know the last phase
  // of this rank if it falls silent.
  void send_phase(const PeerStatus& mine) {
    if (mine.phase == sent_phase ||
        Clock::now() - sent_at < std::chrono::duration<double>(std::max(0.1, ranks.size / 80.0)))
      return;
    sent_phase = mine.phase;
    sent_at = Clock::now();
    messages->send_status(mine);
  }

  // For query_peers(): publishes the last known statuses and queries the peers for the next call.
  void take_peer_snapshot() {
    {
      const std::lock_guard lock(mutex);
      if (!snapshot_wanted) return;
      snapshot_wanted = false;
      peer_snapshot = messages->peers();
    }
    changed.notify_all();
    messages->ask();
  }

  void handle_requests() {
    std::optional<RankFailure> announce;
    std::optional<int> code;
    {
      const std::lock_guard lock(mutex);
      announce.swap(to_announce);
      code = abort_code;
    }
    if (announce) messages->send_failure(announce->exit_code, announce->text);
    if (code) MPI_Abort(MPI_COMM_WORLD, *code);
  }

  // Waits until the next poll:
  // - A thread is waiting: only yields the core, since large transfers depend on fast polling. A
  //   small collective that takes long is waiting for another rank and is polled less often.
  // - A collective overlaps with training: polls now and then.
  // - Idle: waits for work, and answers other ranks a few hundred times per second.
  // With many more ranks than processors, all poll less often, since polling delays those at work.
  void idle() {
    std::unique_lock lock(mutex);
    if (!queued.empty() || !queued_parcels.empty()) return;
    if (under_way.empty() || fault) {
      wake.wait_for(lock, std::chrono::milliseconds(3) * crowding);
    } else if (waiters > 0 && crowding < kCrowded && (++num_yields < kYields || moves_much())) {
      lock.unlock();
      std::this_thread::yield();
    } else {
      wake.wait_for(lock, std::chrono::microseconds(50) * crowding);
    }
  }

  template <typename Value>
  Value now(const Value& shared) const {
    const std::lock_guard lock(mutex);
    return shared;
  }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex);
    if (!fault) fault = std::move(failure);
    changed.notify_all();
  }

  // Of MPI.
  void fail(int status, const std::string& what) {
    fail(std::make_exception_ptr(
        Error(ErrorCode::kTimeoutOccured, what + " failed: " + mpi_error_text(status) +
                                              ". Check the driver logs of the other ranks.")));
  }

  void throw_if_failed() const {
    if (fault) std::rethrow_exception(fault);
  }

  // Queues what `add` adds, and returns the ticket that it returns.
  template <typename Add>
  std::uint64_t queue(const Add& add) {
    std::uint64_t ticket = 0;
    {
      const std::lock_guard lock(mutex);
      throw_if_failed();
      ticket = add();
      under_way.insert(ticket);
    }
    wake.notify_all();
    return ticket;
  }

  template <typename What>
  struct Queued {
    What what;
    std::uint64_t ticket = 0;
  };

  Ranks ranks;  // written once before `ready`, then read by any thread

  // Used by the MPI thread only.
  StallWatch stall;
  std::vector<MpiLane> lanes;  // by Lane
  std::optional<MpiMessages> messages;
  std::optional<MpiParcels> parcels;
  static constexpr int kYields = 300, kLarge = 1 << 14;  // about a millisecond; elements
  static constexpr int kCrowded = 4;
  int crowding = 1;           // this host's ranks for each processor
  int num_yields = 0;         // since the last collective or parcel began
  std::uint64_t watched = 0;  // what `stall` is timing: a collective's place or a parcel's ticket
  std::string sent_phase;
  Clock::time_point sent_at;
  SuspensionWatch suspension{std::chrono::seconds(1)};

  // Shared, under `mutex`.
  mutable std::mutex mutex;
  std::condition_variable wake, changed;
  bool ready = false, stopping = false;
  std::deque<Queued<Collective>> queued;
  std::deque<Queued<Parcel>> queued_parcels;
  // Tickets of everything queued or unfinished. A collective's ticket is its place among all of
  // this rank; parcels' tickets are above kFirstParcel.
  std::set<std::uint64_t> under_way;
  static constexpr std::uint64_t kFirstParcel = std::uint64_t{1} << 63;
  std::uint64_t num_parcels = 0;
  std::uint64_t places = 0, started = 0;  // these also count collectives of other libraries
  int waiters = 0;
  std::exception_ptr fault;
  std::string phase = "starting";
  bool patient = false;
  std::vector<std::string> hosts;
  std::optional<RankFailure> to_announce;
  std::optional<bool> announced;      // result of announce_failure()
  std::optional<int> lowest_failure;  // of the other ranks
  std::optional<int> abort_code;
  std::optional<std::vector<PeerStatus>> peer_snapshot;  // for query_peers()
  bool snapshot_wanted = false;
  std::map<std::string, double> seconds;

  std::thread thread;  // last: starts after everything else is constructed
};

namespace {

// mpirun of Open MPI 5 and later sets the variable; ranks of another version fail in odd ways.
void require_same_open_mpi() {
  const char* version = std::getenv("OMPI_VERSION");
  if (version == nullptr || std::atoi(version) == OMPI_MAJOR_VERSION) return;
  const auto own = std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION);
  throw Error(ErrorCode::kUserError, "Open MPI " + std::string(version) +
                                         " started this process, which uses Open MPI " + own +
                                         ": use kiln launch, or mpirun of Open MPI " + own + ".");
}

}  // namespace

MpiThread::MpiThread(StallLimits limits, std::function<void(const std::string&)> warn) {
  require_same_open_mpi();
  state_ = std::make_unique<State>(limits, std::move(warn));
  std::unique_lock lock(state_->mutex);
  const std::chrono::duration<double> deadline(limits.deadline_s);
  if (state_->changed.wait_for(lock, deadline, [this] { return state_->ready; })) return;
  lock.unlock();
  // MPI cannot be told to stop waiting, so its thread, and all that it uses, outlives this object.
  state_->thread.detach();
  std::ignore = state_.release();
  throw Error(ErrorCode::kTimeoutOccured,
              formatted("Waited %.0f s for MPI_Init: another rank ended before it, or its host "
                        "cannot be reached. Start all ranks with one command; use "
                        "--collective-timeout to wait longer.",
                        limits.deadline_s));
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
  return state_->queue([&] {
    state_->queued.push_back({collective, ++state_->places});
    return state_->places;
  });
}

std::uint64_t MpiThread::post(const Parcel& parcel) {
  if (parcel.bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw InternalError("a parcel of more than 2^31 bytes");
  return state_->queue([&] {
    const std::uint64_t ticket = State::kFirstParcel + ++state_->num_parcels;
    state_->queued_parcels.push_back({parcel, ticket});
    return ticket;
  });
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
  return state_->peer_snapshot.value_or(std::vector<PeerStatus>(state_->ranks.size));
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
