// One fold of --folds: a network that is trained on all other images, just as in a run with this
// split, and then predicts those of the fold. The caller steps it one epoch at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/training_record.h"
#include "features/feature_pass.h"
#include "inputs/training_loaders.h"
#include "run/bad_images.h"
#include "run/plan/prepare.h"
#include "run/run_logger.h"
#include "train/recipe.h"
#include "train/state.h"

namespace kiln {

// What all folds share. All references must outlive the folds.
struct FoldContext {
  TrainingJob& job;
  RunLogger& log;
  BadImageLedger& bad_images;  // for all training images
};

// Every rank has one and calls it in lockstep. One thread.
class FoldTraining {
 public:
  // `held_out`: for each training image, whether it is in the fold. `model`: with its initial
  // weights. A collective.
  FoldTraining(const FoldContext& context, const std::vector<bool>& held_out,
               std::unique_ptr<ImageModel> model);

  // Collectives, called in turn for each epoch, from 1: train() trains the network for an epoch,
  // judge() predicts the held-out images. Both return the stop signal that all ranks act on, or 0.
  // Throw Error kFailedToCompleteOperation if training diverges.
  int train(int epoch);
  int judge();

  // Results of the last epoch, over all ranks: its record, with the held-out images as validation,
  // and class_counts() of the predictions for them.
  const EpochRecord& record() const { return record_; }
  const std::vector<double>& counts() const { return counts_; }
  // The logits of the held-out images, with indices into all training images; on rank 0. A
  // collective.
  LabeledFeatures take_answers();

 private:
  EpochPlan plan(int epoch) const;
  void record_faults(const std::vector<BadImage>& mine);

  const FoldContext context_;
  TrainingJob& job_;
  std::vector<std::uint32_t> train_, held_out_;  // indices into all training images
  TrainingInputs inputs_;                        // the two parts, as in a run with this split
  Recipe recipe_;
  std::unique_ptr<TrainState> state_;
  std::unique_ptr<TrainingLoaders> loaders_;
  EpochRecord record_;
  std::vector<double> counts_;
  LabeledFeatures answers_;  // for this rank's images
};

}  // namespace kiln
