// What travels between ranks, polled: collectives, among them a ring all-reduce for large arrays;
// and outside of them small messages about the ranks' state, and parcels. For the MPI thread only.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/ranks/mpi_thread.h"
#include "parallel/ranks/peer_status.h"

namespace kiln {

// MPI's text for a status other than MPI_SUCCESS.
std::string mpi_error_text(int status);

// An all-reduce as a ring of point-to-point messages, polled. For large arrays it is as fast as
// MPI's blocking all-reduce; MPI's non-blocking one takes 1.5 times as long (`kiln_bench mpi`).
// The data is split into one chunk per rank. First every chunk travels once around the ring and
// accumulates the ranks' values (reduce-scatter); then each finished chunk travels around again
// (all-gather). All ranks end with the same bits. Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009.
class RingAllReduce {
 public:
  // `what` must be a kAllReduce. `communicator` must be used only for ring sums, one at a time.
  RingAllReduce(MPI_Comm communicator, const Collective& what);

  // Makes progress without blocking. Returns true when the sum is complete. It has failed if
  // `status` is not MPI_SUCCESS.
  bool advance(int* status);

 private:
  struct Part {
    char* begin;
    std::size_t bytes;
  };
  Part chunk(int index) const;
  bool is_summing() const { return step_ < size_ - 1; }
  void post_step();
  void post_receive(std::size_t i);  // of segment i
  char* slot(std::size_t i) const;   // where segment i arrives if it is to be added

  MPI_Comm communicator_;
  Collective what_;
  int rank_ = 0, size_ = 1;
  std::size_t chunk_bytes_ = 0;
  int step_ = 0;  // size - 1 steps of reduce-scatter, then size - 1 of all-gather
  bool posted_ = false;
  std::unique_ptr<char[]> incoming_;  // a window of segments to be added
  std::vector<Part> segments_;        // of the chunk received in this step
  std::vector<MPI_Request> receives_, sends_;
  std::size_t arrived_ = 0;
};

// An all-gather in log2(ranks) rounds, polled: in each a rank passes on all that it has so far,
// twice as much as before. Open MPI 4's non-blocking one sends a message to every other rank.
// Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", 1997.
class GatherInRounds {
 public:
  // `what` must be a kGather. `communicator` as in RingAllReduce.
  GatherInRounds(MPI_Comm communicator, const Collective& what);

  // As in RingAllReduce.
  bool advance(int* status);

 private:
  MPI_Comm communicator_;
  Collective what_;
  int rank_ = 0, size_ = 1;
  int known_ = 1;            // parts that are here: those of the next ranks, from this one on
  std::vector<char> parts_;  // in that order
  std::vector<MPI_Request> requests_;
};

// Collectives over separate MPI communicators: all start immediately, and they finish in order.
class MpiLane {
 public:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Collective what;
    std::uint64_t place = 0;  // among all collectives of this rank
    Clock::time_point begin;
    MPI_Request request = MPI_REQUEST_NULL;
    std::optional<RingAllReduce> ring = {};  // in place of the request; so is `rounds`
    std::optional<GatherInRounds> rounds = {};
  };
  struct Done {
    Collective what;
    std::uint64_t place = 0;
    double seconds = 0;  // time spent as the oldest of its lane
  };

  explicit MpiLane(MPI_Comm communicator);  // duplicates it twice; a collective
  MpiLane(MpiLane&&) = default;
  void close();  // before MPI_Finalize

  void start(const Collective& what, std::uint64_t place);
  // Removes and returns the oldest collective if it is done. It has failed if `status` is not
  // MPI_SUCCESS.
  std::optional<Done> take_done(int* status);
  const Running* oldest() const { return running_.empty() ? nullptr : &running_.front(); }
  // Call after the process was suspended for `gap`: that time does not count as waiting.
  void forget(Clock::duration gap);

 private:
  MPI_Comm collectives_ = MPI_COMM_NULL, rings_ = MPI_COMM_NULL;
  int size_ = 1;
  std::deque<Running> running_;
  Clock::time_point last_end_;
};

struct RankFailure {
  int rank = 0;
  int exit_code = 0;
  std::string text;  // truncated to fit into a message
};

// Status queries, status replies and failure notices. They are handled even while a collective is
// stuck, so a stall can be explained. Up to 8 ranks each asks and tells all others. Of more, a
// rank watches those that follow it at distances 1, 2, 4 and so on, so every rank is watched by
// several and sends to few; rank 0 watches all and hears of every phase; failure notices are passed
// on.
class MpiMessages {
 public:
  explicit MpiMessages(MPI_Comm communicator);  // duplicates it; a collective
  void close();                                 // before MPI_Finalize, on all ranks

  // Processes incoming messages; answers queries with `mine`.
  void poll(const PeerStatus& mine);
  void ask() { send_to(watched_, {}); }
  void send_status(const PeerStatus& mine) { send_to(told_, status_message(mine)); }
  void send_failure(int exit_code, const std::string& text);

  // Call after the process was suspended for `gap`, when it could not hear from the others.
  void forget(std::chrono::steady_clock::duration gap);

  const std::vector<PeerStatus>& peers() const { return peers_; }  // [size]
  // The failure reported by the lowest such rank, if any.
  const std::optional<RankFailure>& failure() const { return failure_; }

 private:
  enum class MessageKind : std::int32_t { kAsk, kTell, kFailed };
  struct Message {
    MessageKind kind = MessageKind::kAsk;
    std::int32_t exit_code = 0;
    std::uint64_t started = 0;
    std::int32_t patient = 0;
    std::int32_t failed_rank = 0;
    std::uint64_t place = 0;
    std::array<char, 48> collective{};
    std::array<char, 1000> text{};  // sent up to its end
  };
  struct Sending {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static Message status_message(const PeerStatus& mine);
  void receive_next();
  void take(const Message& message, int from, const PeerStatus& mine);
  void send(int to, const Message& message);
  void send_to(const std::set<int>& ranks, const Message& message);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::set<int> watched_, told_;  // ranks
  Message incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;  // a list, since MPI keeps pointers to its elements
  std::vector<PeerStatus> peers_;
  std::optional<RankFailure> failure_;
};

// Parcels in flight, split into segments: MPI transfers many concurrent requests faster than one
// large one.
class MpiParcels {
 public:
  using Clock = std::chrono::steady_clock;
  struct Moving {
    Parcel what;
    std::uint64_t ticket = 0;
    Clock::time_point begin;
    std::vector<MPI_Request> segments = {};
  };

  explicit MpiParcels(MPI_Comm communicator);      // duplicates it; a collective
  void close() { MPI_Comm_free(&communicator_); }  // before MPI_Finalize

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
