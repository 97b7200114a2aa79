// What ranks send each other outside of collectives: small messages about their state, and parcels.
// For the MPI thread only.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "parallel/ranks/mpi_thread.h"
#include "parallel/ranks/peer_status.h"

namespace kiln {

struct RankFailure {
  int rank = 0;
  int exit_code = 0;
  std::string text;  // truncated to fit into a message
};

// Status queries, status replies and failure notices. They are handled even while a collective is
// stuck, so a stall can be explained.
class MpiMessages {
 public:
  explicit MpiMessages(MPI_Comm communicator);  // duplicates it; a collective
  void close();                                 // before MPI_Finalize, on all ranks

  // Processes incoming messages; answers queries with `mine`.
  void poll(const PeerStatus& mine);
  void ask_all();
  void send_status(const PeerStatus& mine);
  void send_failure(int exit_code, const std::string& text);

  // Call after the process was suspended for `gap`, when it could not hear from the others.
  void forget(std::chrono::steady_clock::duration gap);

  const std::vector<PeerStatus>& peers() const { return peers_; }  // [size]
  // The failure reported by the lowest such rank, if any.
  const std::optional<RankFailure>& failure() const { return failure_; }

 private:
  enum class Kind : std::int32_t { kAsk, kTell, kFailed };
  struct Message {
    Kind kind = Kind::kAsk;
    std::int32_t exit_code = 0;
    std::uint64_t started = 0;
    std::int32_t patient = 0;
    std::array<char, 1004> text{};
  };
  struct Sending {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static Message status_message(const PeerStatus& mine);
  void receive_next();
  void take(const Message& message, int from, const PeerStatus& mine);
  void send(int to, const Message& message);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
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
