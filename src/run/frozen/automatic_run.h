// --auto while a run is under way: the head of the frozen network is fitted, as the first epoch;
// then an epoch of fine-tuning is kept only where it is better than that on the validation images.
#pragma once

#include <string>
#include <vector>

#include "base/training_record.h"
#include "report/record/evaluation.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "run/time_limit.h"
#include "train/evaluation.h"
#include "train/state.h"

namespace kiln {

// Every rank has one and calls it in lockstep. Without --auto it does nothing, and allows every
// epoch. One thread.
class AutomaticRun {
 public:
  // All must outlive it.
  AutomaticRun(TrainingJob& job, TrainState& state, RunLogger& log)
      : job_(job), state_(state), log_(log) {}

  // The first epoch, from which the state's weights then go on: its best epoch is the frozen
  // network with its fitted head. A run that resumes from a checkpoint has made it. Where `limit`
  // leaves no time for fine-tuning, it is over afterwards. Returns the stop signal that all ranks
  // act on, or 0. A collective.
  int fit_head(TimeLimit& limit);

  // Whether fit_head() is still to be done.
  bool needs_head() const { return job_.is_automatic && !state_.progress.automatic.has_value(); }

  // Whether an epoch that was fine-tuned may become the best one: where it is better than the
  // frozen network by McNemar's test at 5 %. `predictions` are this rank's. A collective.
  bool allows(const EpochRecord& record, const std::vector<Prediction>& predictions);

  // The end of training: which of the two is kept, and why, for the record.
  void finish(const TimeLimit& limit);

 private:
  void take_head(const std::vector<NamedTensor>& weights);
  std::string reason(const TimeLimit& limit) const;

  TrainingJob& job_;
  TrainState& state_;
  RunLogger& log_;
};

// One character for each of `num_images`, as in AutomaticProgress::answers.
std::string packed_answers(const std::vector<Prediction>& predictions, std::size_t num_images);

// The images that both have answered; `second` of any order.
PairedAnswers paired(const std::string& first, const std::vector<Prediction>& second);

}  // namespace kiln
