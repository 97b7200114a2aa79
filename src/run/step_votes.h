// What the ranks agree on between the steps of an epoch: stop signals, bad images, non-finite
// losses, printed metrics, checkpoints, the time limit. Takes one all-reduce per step. Normally the
// ranks wait for it at once. If the exchange lets a rank lag, each continues and acts on a vote
// that many steps later, which bounds how far ahead of the others it can be.
#pragma once

#include <deque>
#include <vector>

#include "data/loader/batches.h"
#include "run/bad_images.h"
#include "run/checkpoint/checkpoints.h"
#include "run/prepare/prepare.h"
#include "run/run_logger.h"
#include "run/time_limit.h"
#include "run/vote.h"
#include "train/epoch.h"

namespace kiln {

// All calls are collectives. One thread.
class StepVotes {
 public:
  // The objects that act on votes.
  struct Run {
    TrainingJob& job;
    RunLogger& log;
    Checkpoints& checkpoints;
    TimeLimit& limit;
    BadImageLedger& bad_train;
  };

  // All arguments must outlive it.
  StepVotes(const Run& run, TrainEpoch& training, Batches& loader);

  // Return the stop signal that all ranks act on, or 0.
  int before_steps();     // once: a stream may contain no image at all
  int after_step();       // after each step
  int after_last_step();  // once: acts on the votes still in flight

 private:
  // What this rank keeps for a vote from casting it until acting on it.
  struct PendingStep {
    std::vector<BadImage> faults;
    bool is_printed = false;
    PrintedStep printed;       // set if it is printed
    bool is_answered = false;  // a checkpoint has been written since
  };

  int act_on_oldest();

  Run run_;
  TrainEpoch& training_;
  Batches& loader_;
  DelayedVotes votes_;
  std::deque<PendingStep> pending_;
};

}  // namespace kiln
