// --folds while a run is under way, where the network itself is trained: before the run a network
// for each fold, and instead of the run's validation what these answered.
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

// Every rank has one and calls it in lockstep. For a job that does not train its folds it does
// nothing. It must outlive a failure's report, as collectives on its networks may be in flight. One
// thread.
class FoldsRun {
 public:
  // All must outlive it.
  FoldsRun(TrainingJob& job, TrainState& state, RunLogger& log)
      : job_(job), state_(state), log_(log) {}

  // Trains the folds that are still to be trained, from the state's weights, which are the first
  // ones then; a checkpoint follows each. Returns the stop signal that all ranks act on, or 0.
  // Throws Error kUserError for a run that resumes with other epochs. A collective.
  int train(Checkpoints& checkpoints);

  // Whether the answers of the folds stand in for the run's validation.
  bool judges() const { return job_.trains_folds(); }
  // Sets the validation numbers of `record`: those of the folds' networks after as many epochs.
  void judge(EpochRecord& record) const;
  // Whether the epoch's model may be kept: that of the last epoch alone, as the folds' answers
  // judge what is trained to the end and nothing else.
  bool allows(int epoch) const { return !judges() || epoch >= job_.last_epoch(); }
  // The details of the best epoch, which is the last: of the answers after it. Sets its calibration
  // in the state. A collective.
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
  std::unique_ptr<FoldTraining> training_;  // the fold under way
  std::vector<FoldEpoch> epochs_;           // its epochs so far
};

}  // namespace kiln
