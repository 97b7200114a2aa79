// The only thread of a process that makes MPI calls. It takes collectives from a queue and polls
// them, so none blocks forever: at the deadline, or when another rank reports a failure, every wait
// ends with an exception. The thread also answers the other ranks' status queries, so that a stall
// can be traced to a rank. All ranks must start the same collectives in the same order in each
// lane. Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/timeline.h"
#include "parallel/ranks/peer_status.h"

namespace kiln {

enum class ElementType { kByte, kFloat32, kFloat64, kInt64 };

// Collectives in one lane finish in order; lanes do not wait for each other.
enum class Lane { kMain, kSecond };
constexpr std::size_t kNumLanes = 2;

enum class CollectiveKind { kAllReduce, kMaximum, kBroadcast, kGather, kGatherOnRank0, kBarrier };

// One collective operation, on host memory.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  const char* name = "";  // for messages: "gradient all-reduce"
  // Summed or broadcast (from rank 0) in place, or the largest of unsigned 64-bit numbers found;
  // for the gathers: this rank's part.
  void* data = nullptr;
  std::size_t count = 0;  // elements of `data`
  ElementType element = ElementType::kByte;
  // For the gathers: [size] parts of `count` bytes; for kGatherOnRank0 on rank 0 only, and that
  // rank's part must be there already.
  void* gathered = nullptr;
  // Owns the memory. MPI may still write to it after the waiting thread has given up.
  std::shared_ptr<const void> keep = {};
  Lane lane = Lane::kMain;
  std::shared_ptr<Timeline> timeline = {};  // records the collective when done; may be null
};

enum class ParcelKind { kSend, kReceive };

// A point-to-point message between two ranks, outside of collectives. Both must know its size.
struct Parcel {
  static constexpr int kAnyRank = -1;

  ParcelKind kind = ParcelKind::kSend;
  const char* name = "";  // for messages: "exchange with the servers"
  int rank = kAnyRank;    // destination or source; a parcel from any rank has at most 512 KiB
  int tag = 0;            // between two ranks, parcels with the same tag arrive in order
  void* data = nullptr;
  std::size_t bytes = 0;
  // Owns the memory. MPI may still write to it after the waiting thread has given up.
  std::shared_ptr<const void> keep = {};
  // Whether the other rank is expected to act at once: waiting then keeps polling. Otherwise it
  // polls rarely, which costs little.
  bool is_soon = true;
};

class MpiThread {
 public:
  // Initializes MPI and blocks until it is up. The limits apply to each collective, from its start
  // on this rank. `warn` is called on the MPI thread.
  MpiThread(StallLimits limits, std::function<void(const std::string&)> warn);
  // Finalizes MPI; all ranks must have finished all collectives.
  ~MpiThread();

  struct Ranks {
    int rank = 0, size = 1;
    int local_rank = 0, local_size = 1;  // among the ranks on this host
  };
  const Ranks& ranks() const;

  static constexpr std::uint64_t kDone = 0;  // the ticket of something already done
  // Queues the collective and returns a ticket for wait(). Tickets of one lane finish in order.
  std::uint64_t start(const Collective& collective);
  // Starts sending or receiving a parcel and returns a ticket for wait(). Parcels are not
  // collectives: they are not ordered with respect to them, and their deadline is enforced only
  // while no collective is in flight.
  std::uint64_t post(const Parcel& parcel);
  // Throws Error kTimeoutOccured at the deadline, FailedElsewhere when another rank failed; from
  // then on every start and wait throws the same.
  void wait(std::uint64_t ticket);

  // Throws the recorded failure, if there is one, without waiting.
  void throw_if_failed() const;

  // Counts a collective run by another library (NCCL). Returns its index among all collectives of
  // this rank.
  std::uint64_t count_elsewhere();
  // The last known status of all ranks, [size]; also queries them again for the next call. Blocks
  // for a few milliseconds.
  std::vector<PeerStatus> query_peers();

  // Total seconds during which a collective of this name was the oldest in flight in its lane.
  double seconds_of(const std::string& name) const;

  // Sets this rank's phase, "training, epoch 2, step 17", for the warnings of the other ranks.
  // While a rank is `patient`, the others wait for it past the deadline as long as it responds.
  void set_phase(const std::string& phase, bool patient);
  std::string phase() const;
  // Sets the host name of each rank, for messages.
  void set_host_names(std::vector<std::string> hosts);

  // Notifies all ranks that this one has failed, unless another failed first. Returns true if no
  // lower rank does the same within half a second: then this rank must report the failure. Further
  // calls return the first result immediately.
  bool announce_failure(const std::string& text, int exit_code);
  // Ends the whole job with this exit code; does not return.
  [[noreturn]] void abort(int exit_code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
