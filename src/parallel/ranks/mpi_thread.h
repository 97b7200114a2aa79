// The only thread of a process that makes MPI calls. Collectives are queued to it in order and
// polled, so none blocks forever: at the deadline, or when another rank reports a failure, every
// wait ends with an exception. Between collectives the thread answers the other ranks' status
// queries, so that a stall can be attributed. All ranks start the same collectives in the same
// order in each lane. Any thread may call; the destructor finalizes MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/ranks/collective.h"
#include "parallel/ranks/parcel.h"
#include "parallel/ranks/peer_status.h"

namespace kiln {

class MpiThread {
 public:
  // Initializes MPI and blocks until it is up. The limits apply to one collective from its start on
  // this rank; `warn` is called from the thread.
  MpiThread(StallWatch::Limits limits, std::function<void(const std::string&)> warn);
  // Finalizes MPI; all ranks must have finished all collectives.
  ~MpiThread();

  struct Ranks {
    int rank = 0, size = 1;
    int local_rank = 0, local_size = 1;  // among the ranks on this host
  };
  const Ranks& ranks() const;

  static constexpr std::uint64_t kDone = 0;  // a ticket that is already done
  // A ticket for wait(). The tickets of one lane finish in order.
  std::uint64_t start(const Collective& collective);
  // Starts to send or to receive bytes; the ticket is for wait(), too. Parcels are no collectives:
  // they have no order among those, and their deadline counts where no collective is in flight.
  std::uint64_t post(const Parcel& parcel);
  // Throws Error kTimeoutOccured at the deadline, FailedElsewhere when another rank failed; from
  // then on every start and wait throws the same.
  void wait(std::uint64_t ticket);

  // Throws what wait() would, now.
  void throw_if_failed() const;

  // Registers a collective of another library: returns its index among all collectives of this
  // rank.
  std::uint64_t count_elsewhere();
  // [size] the last known status of the other ranks; queries them again. Blocks for milliseconds.
  std::vector<PeerStatus> query_peers();

  // Seconds during which a collective of this name was the oldest in flight in its lane.
  double seconds_of(const std::string& name) const;

  // This rank's phase, for the others' warnings: "training, epoch 2, step 17". While a rank is
  // `patient`, the others wait for it past the deadline as long as it responds.
  void set_phase(const std::string& phase, bool patient);
  std::string phase() const;
  // Sets the host name of each rank, for messages.
  void set_host_names(std::vector<std::string> hosts);

  // Notifies all ranks that this one failed, unless another failed first. Returns true if no lower
  // rank does so within half a second: then this rank reports the failure. Repeated calls return
  // the first result immediately.
  bool announce_failure(const std::string& text, int exit_code);
  // Ends the whole job with this exit code; does not return.
  [[noreturn]] void abort(int exit_code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
