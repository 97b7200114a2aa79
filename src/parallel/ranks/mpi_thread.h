// The one thread of a process that makes MPI calls. Collectives are handed to it in order and
// polled, so none blocks for ever: at the deadline, or when another rank says that it failed, every
// wait ends with an exception. Between collectives the thread answers the other ranks' questions
// about what this one is doing, which is how a stall gets a name.
//
// All ranks start the same collectives in the same order in each lane. Any thread may call; MPI is
// finished by the destructor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/ranks/collective.h"
#include "parallel/ranks/peer_status.h"

namespace kiln {

class MpiThread {
 public:
  // Starts MPI and blocks until it runs. The limits are those of one collective from its start on
  // this rank; `warn` is called from the thread.
  MpiThread(StallWatch::Limits limits, std::function<void(const std::string&)> warn);
  // Ends MPI, for which all ranks must have finished all collectives.
  ~MpiThread();

  struct Ranks {
    int rank = 0, size = 1;
    int local_rank = 0, local_size = 1;  // among the ranks on this host
  };
  const Ranks& ranks() const;

  static constexpr std::uint64_t kDone = 0;  // a ticket that nobody has to wait for
  // A ticket for wait(). The tickets of one lane finish in order.
  std::uint64_t start(const Collective& collective);
  // Throws Error kTimeoutOccured at the deadline, FailedElsewhere when another rank failed; from
  // then on every start and wait throws the same.
  void wait(std::uint64_t ticket);

  // Throws what wait() would, now.
  void throw_if_failed() const;

  // A collective of another library starts on this rank: its place among all collectives.
  std::uint64_t count_elsewhere();
  // [size] what the other ranks said last; asks them again. Blocks for milliseconds.
  std::vector<PeerStatus> query_peers();

  // Seconds in which a collective of this name was the oldest under way in its lane.
  double seconds_of(const std::string& name) const;

  // What this rank is doing, for the others' warnings: "training, epoch 2, step 17". While a rank
  // is `patient`, the others wait for it past the deadline as long as it answers.
  void tell_phase(const std::string& phase, bool patient);
  std::string phase() const;
  // Names ranks in messages: one host a rank.
  void set_host_names(std::vector<std::string> hosts);

  // Tells all ranks that this one failed, unless it last_seen so of another before. Then true when
  // no lower rank says so within half a second: this rank is the one to report. Told once: called
  // again, it gives the first answer at once.
  bool announce_failure(const std::string& text, int exit_code);
  // Ends the whole job with this exit code; does not return.
  [[noreturn]] void abort(int exit_code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
