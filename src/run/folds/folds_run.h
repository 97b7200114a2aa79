// --folds in a run that trains the network itself: before the run's own epochs a network is trained
// for each fold, and the predictions of these networks replace the run's validation.
#pragma once

#include <memory>
#include <vector>

#include "base/training_record.h"
#include "run/checkpoint/checkpoints.h"
#include "run/folds/fold_training.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/state.h"

namespace kiln {

// Every rank has one and calls it in lockstep. Does nothing for a job without folds to train. Must
// outlive the report of a failure, since collectives on its networks may still be in flight. One
// thread.
class FoldsRun {
 public:
  // All arguments must outlive it.
  FoldsRun(TrainingJob& job, TrainState& state, RunLogger& log)
      : job_(job), state_(state), log_(log) {}

  // Trains the remaining folds, each from the state's weights, which must still be the initial
  // ones; writes a checkpoint after each. Returns the stop signal that all ranks act on, or 0.
  // Throws Error kUserError if a run resumes with a different number of epochs. A collective.
  int train(Checkpoints& checkpoints);

  // Whether the folds' predictions replace the run's validation.
  bool judges() const { return job_.trains_folds(); }
  // Sets the validation metrics of `record` to those of the folds' networks after the same epoch.
  void judge(EpochRecord& record) const;
  // Whether the epoch's model may be kept. With folds only the last epoch's, since the folds'
  // predictions judge fully trained networks.
  bool allows(int epoch) const { return !judges() || epoch >= job_.last_epoch(); }
  // The validation details of the last epoch, which is the best one, from the folds' predictions
  // after it. Sets its calibration in the state. A collective.
  ValidationDetails details();

 private:
  int num_folds() const { return job_.config.optimization.folds; }
  FoldsProgress& begin();
  int train_fold(int fold, BadImageLedger& bad_images);
  void log_epoch(int fold, const EpochRecord& record) const;
  void take_answers(int fold);

  TrainingJob& job_;
  TrainState& state_;
  RunLogger& log_;
  std::unique_ptr<FoldTraining> training_;  // the current fold
  std::vector<FoldEpoch> epochs_;           // its epochs so far
};

}  // namespace kiln
