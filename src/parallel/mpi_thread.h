// The one thread of a process that makes MPI calls. Collectives are handed to it in order and
// polled, so none blocks for ever: at the deadline, or when another rank says that it failed, every
// wait ends with an exception. Between collectives the thread answers the other ranks' questions
// about what this one is doing, which is how a stall gets a name.
//
// All ranks start the same collectives in the same order. Any thread may call; MPI is finished by
// the destructor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/collective.h"

namespace kiln {

class MpiThread {
 public:
  struct Limits {
    double deadline_s = 300;      // for one collective, from its start on this rank
    double stall_warning_s = 60;  // then, and again as often, `warn` hears who is missing
  };

  // Starts MPI and blocks until it runs. `warn` is called from the thread.
  MpiThread(Limits limits, std::function<void(const std::string&)> warn);
  // Ends MPI, for which all ranks must have finished all collectives.
  ~MpiThread();

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks on this host
  int local_size() const;

  // A ticket for wait(). Tickets finish in order.
  std::uint64_t start(const Collective& collective);
  // Throws Error kTimeoutOccured at the deadline, FailedElsewhere when another rank failed; from
  // then on every start and wait throws the same.
  void wait(std::uint64_t ticket);

  // Throws what wait() would, now.
  void throw_if_failed() const;

  // What this rank is doing, for the others' warnings: "training, epoch 2, step 17". While a rank
  // is `patient`, the others wait for it past the deadline as long as it answers.
  void tell_phase(const std::string& phase, bool patient);
  // Names ranks in messages: one host a rank.
  void know_hosts(std::vector<std::string> hosts);

  // Tells all ranks that this one failed, unless it heard so of another before. Then true when no
  // lower rank says so within half a second: this rank is the one to report.
  bool announce_failure(const std::string& text, int exit_code);
  // Ends the whole job with this exit code; does not return.
  [[noreturn]] void abort(int exit_code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
