// State shared by the MPI thread and the threads that use it. For mpi_thread*.cpp only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/ranks/mpi_collectives.h"
#include "parallel/ranks/mpi_messages.h"
#include "parallel/ranks/mpi_parcels.h"
#include "parallel/ranks/mpi_thread.h"

namespace kiln {

struct MpiThread::State {
  State(StallWatch::Limits limits, std::function<void(const std::string&)> warn)
      : stall(limits, std::move(warn)), thread([this] { run(); }) {}

  void run();
  void open();
  void poll_once();
  void start_queued();
  void finish(MpiLane& lane);
  void finish_parcels();
  const MpiLane::Running* oldest() const;  // of all lanes
  bool moves_much() const;
  void watch();
  void receive_status();
  void send_phase(const PeerStatus& mine);
  void take_peer_snapshot();
  void handle_requests();
  void idle();
  template <typename Value>
  Value now(const Value& shared) const {
    const std::lock_guard lock(mutex);
    return shared;
  }
  void fail(std::exception_ptr failure);
  void throw_if_failed() const;

  struct Queued {
    Collective what;
    std::uint64_t place = 0;  // among all collectives of this rank
  };
  struct QueuedParcel {
    Parcel what;
    std::uint64_t ticket = 0;
  };

  Ranks ranks;  // written once before `ready`, then read by any thread

  // Used by the MPI thread only.
  StallWatch stall;
  std::vector<MpiLane> lanes;  // by Lane
  std::optional<MpiMessages> messages;
  std::optional<MpiParcels> parcels;
  static constexpr int kYields = 300, kLarge = 1 << 14;  // about a millisecond; elements
  int num_yields = 0;         // since the last collective or parcel began
  std::uint64_t watched = 0;  // what `stall` is timing: a collective's place or a parcel's ticket
  std::string sent_phase;
  std::chrono::steady_clock::time_point sent_at;
  SuspensionWatch suspension{std::chrono::seconds(1)};

  // Shared, under `mutex`.
  mutable std::mutex mutex;
  std::condition_variable wake, changed;
  bool ready = false, stopping = false;
  std::deque<Queued> queued;
  std::deque<QueuedParcel> queued_parcels;
  // Tickets of everything queued or unfinished. A collective's ticket is its place; parcels'
  // tickets are above kFirstParcel.
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

}  // namespace kiln
