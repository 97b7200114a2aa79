// One fold of --folds: a network that learns from the other images, as a run with this split would
// make it learn, and answers for those of the fold. Stepped by its caller, an epoch at a time.
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

// What all folds share. All must outlive them.
struct FoldContext {
  TrainingJob& job;
  RunLogger& log;
  BadImageLedger& bad_images;  // for all training images
};

// One thread; every rank has one and calls it in lockstep.
class FoldTraining {
 public:
  // `held_out`: which training images are the fold's. `model`: with the first weights. A
  // collective.
  FoldTraining(const FoldContext& context, const std::vector<bool>& held_out,
               std::unique_ptr<ImageModel> model);

  // Collectives, in turn; they return the stop signal that all ranks act on, or 0. The network
  // trains for an epoch, from 1, and answers for the images that were held out. Throws Error
  // kFailedToCompleteOperation where it diverges.
  int train(int epoch);
  int judge();

  // The last epoch, over all ranks: its record, in which the images that were held out are the
  // validation, and class_counts() of the answers for them.
  const EpochRecord& record() const { return record_; }
  const std::vector<double>& counts() const { return counts_; }
  // The logits, by index into all training images; on rank 0. A collective.
  LabeledFeatures take_answers();

 private:
  EpochPlan plan(int epoch) const;
  void record_faults(const std::vector<BadImage>& mine);

  const FoldContext context_;
  TrainingJob& job_;
  std::vector<std::uint32_t> train_, held_out_;  // index into all training images
  TrainingInputs inputs_;                        // the two parts, as a run would have them
  Recipe recipe_;
  std::unique_ptr<TrainState> state_;
  std::unique_ptr<TrainingLoaders> loaders_;
  EpochRecord record_;
  std::vector<double> counts_;
  LabeledFeatures answers_;  // for this rank's images
};

}  // namespace kiln
