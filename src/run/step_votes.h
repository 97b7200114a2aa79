// What the ranks agree on between the steps of an epoch: stop signals, bad images, non-finite
// losses, printed metrics, checkpoints, the time limit. Takes one all-reduce per step. Normally the
// ranks wait for it at once. If the exchange lets a rank lag, each continues and acts on a vote
// that many steps later, which bounds how far ahead of the others it can be.
#pragma once

#include <deque>
#include <vector>

#include "data/loader/batches.h"
#include "run/run.h"
#include "run/vote.h"
#include "train/epoch.h"

namespace kiln {

// All calls are collectives. One thread.
class StepVotes {
 public:
  // All arguments must outlive it.
  StepVotes(Run& run, TrainEpoch& training, Batches& loader);

  // The run's Stop hears what the ranks agree on.
  void before_steps();     // once: a stream may contain no image at all
  void after_step();       // after each step
  void after_last_step();  // once: acts on the votes still in flight, until the run stops

 private:
  // What this rank keeps for a vote from casting it until acting on it.
  struct PendingStep {
    std::vector<BadImage> faults;
    bool is_printed = false;
    PrintedStep printed;       // set if it is printed
    bool is_answered = false;  // a checkpoint has been written since
  };

  void act_on_oldest();

  Run& run_;
  TrainEpoch& training_;
  Batches& loader_;
  DelayedVotes votes_;
  std::deque<PendingStep> pending_;
};

}  // namespace kiln
