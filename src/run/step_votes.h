// What the ranks agree on between the steps of an epoch: stop signals, bad images, a loss that is
// not finite, the printed numbers, checkpoints, the end of the time. One all-reduce for a step,
// which a job that waits for it makes at once; with a parameter server each rank goes on, and acts
// on a vote when it has made --staleness more steps. That bounds how far it may be ahead.
#pragma once

#include <deque>
#include <vector>

#include "data/loader/batches.h"
#include "run/bad_images.h"
#include "run/checkpoint/checkpoints.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "run/time_limit.h"
#include "run/vote.h"
#include "train/epoch.h"

namespace kiln {

// One thread; collectives.
class StepVotes {
 public:
  // Those who act on votes.
  struct Run {
    TrainingJob& job;
    RunLogger& log;
    Checkpoints& checkpoints;
    TimeLimit& limit;
    BadImageLedger& bad_train;
  };

  // All must outlive it.
  StepVotes(const Run& run, TrainEpoch& training, Batches& loader);

  // Return the stop signal that all ranks act on, or 0.
  int before_steps();     // once, as a stream may have no image at all
  int after_step();       // after each step
  int after_last_step();  // once: acts on the votes that are still under way

 private:
  // What this rank keeps beside a vote that it has cast, until it acts on it.
  struct PendingStep {
    std::vector<BadImage> faults;
    bool is_printed = false;
    StepRecord record;  // set if the step is printed
    int first_nonfinite_step = 0;
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
