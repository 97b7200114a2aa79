// --auto during a run: as the first epoch, fits the head of the frozen network; later epochs of
// fine-tuning are kept only if they are better on the validation images.
#pragma once

#include <string>
#include <vector>

#include "record/evaluation.h"
#include "record/training_record.h"
#include "run/prepare/prepare.h"
#include "run/run_logger.h"
#include "run/time_limit.h"
#include "train/evaluation.h"
#include "train/state.h"

namespace kiln {

// Every rank has one and calls it in lockstep. Without --auto it does nothing and allows every
// epoch. One thread.
class AutomaticRun {
 public:
  // All arguments must outlive it.
  AutomaticRun(TrainingJob& job, TrainState& state, RunLogger& log)
      : job_(job), state_(state), log_(log) {}

  // Runs the first epoch: the frozen network with the fitted head becomes the state's best epoch
  // and the starting point of fine-tuning. Does nothing if a resumed run has already done it. If
  // `limit` leaves no time for fine-tuning, it is over afterwards. Returns the stop signal that all
  // ranks act on, or 0. A collective.
  int fit_head(TimeLimit& limit);

  // Whether fit_head() has not been done yet: the state cannot be resumed from before.
  bool needs_head() const { return job_.is_automatic && !state_.progress.automatic.has_value(); }

  // Whether an epoch of fine-tuning may become the best one: if it is better than the frozen
  // network, significant at 5 % by McNemar's test. `predictions` are this rank's. A collective.
  bool allows(const EpochRecord& record, const std::vector<Prediction>& predictions);

  // Call at the end of training: records which of the two is kept, and why.
  void finish(const TimeLimit& limit);

 private:
  void take_head(const std::vector<NamedTensor>& weights);
  std::string reason(const TimeLimit& limit) const;

  TrainingJob& job_;
  TrainState& state_;
  RunLogger& log_;
};

// One character per image, as in AutomaticProgress::answers.
std::string packed_answers(const std::vector<Prediction>& predictions, std::size_t num_images);

// Counts the images that both have answered. `second` may be in any order.
PairedAnswers paired(const std::string& first, const std::vector<Prediction>& second);

}  // namespace kiln
