// All mutable state of training in one struct: exactly what a checkpoint must contain.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/training_record.h"
#include "model/image_model.h"
#include "parallel/gradients/gradient_buckets.h"
#include "train/early_stopping.h"
#include "train/evaluation.h"
#include "train/exchange/exchange.h"
#include "train/optimizer/averaged_weights.h"
#include "train/optimizer/loss_scaler.h"
#include "train/optimizer/optimizer.h"
#include "train/recipe.h"

namespace kiln {

// The epoch whose weights are kept.
struct BestEpoch {
  int epoch = 0;  // from 1; 0: none yet
  Totals valid;   // over all ranks
  double macro_recall = 0;
  Calibration calibration;
  // copied_weights() of that epoch, on rank 0 alone.
  std::vector<NamedTensor> weights;
};

// What a time limit has decided so far. Plain values: part of the training state.
struct TimePlan {
  int epochs = 0;            // that fit, over which the schedule runs; 0: not decided yet
  double epoch_seconds = 0;  // expected of each of them
  double end_seconds = 0;    // from the last step of an epoch to its record; 0: not known yet
  bool is_over = false;      // no step follows, though there are some left
  std::int64_t steps = 0;    // made in the whole run until it was over
};

// What --auto has found so far. Plain values: part of the training state.
struct AutomaticProgress {
  // The answer of the frozen network with its fitted head for each validation image: '1' for a
  // right one, '0' for a wrong one, '-' for none.
  std::string answers;
  AutomaticRecord found;
  double tuned_macro_recall = 0;  // in the epoch found.tuned_epoch
};

// What the networks of --folds answered after an epoch, summed over the folds that are done and
// over all ranks.
struct FoldEpoch {
  Totals valid;
  std::vector<double> counts;  // as class_counts() makes them
};

// What --folds has found so far, where the network itself is trained. Part of the training state.
struct FoldsProgress {
  int done = 0;                   // folds
  std::vector<FoldEpoch> epochs;  // from the first on
  // [N, C] float32 on the host, on rank 0: of each training image, by the network that had not
  // learned from it, after the last epoch; NaN: not judged.
  at::Tensor logits;
};

struct Progress {
  int epochs_done = 0;
  BestEpoch best;
  EarlyStopping early_stopping;
  std::optional<TimePlan> time_plan;           // of a run with a time limit
  std::optional<AutomaticProgress> automatic;  // of one with --auto, once the head is fitted
  std::optional<FoldsProgress> folds;          // of one whose folds are trained
};

// Where an epoch's time went on this rank.
struct EpochTimes {
  double seconds = 0, data_wait_seconds = 0;
  StepTimes parts;
  CommunicationTime communication;  // zero if it is not measured
};

// This rank's totals of the epoch under way; nothing between two epochs.
struct EpochSums {
  explicit EpochSums(const at::Device& device) : metrics(device) {}

  int steps = 0;            // made so far
  bool has_joined = false;  // BatchNorm's statistics were averaged over the ranks
  MetricSums metrics;
  // The designer's averages are weighted by images.
  double images = 0, weighted_seconds = 0, weighted_rate = 0;
  EpochTimes spent;
};

// Images of one dataset that could not be decoded, or only in part; the same on all ranks, unless
// each has its own shard.
struct ImageFaults {
  std::set<std::uint32_t> samples;  // index into the dataset's samples
  std::vector<ImageFaultRecord> records;
  int num_bad = 0;  // skipped; the other records are damaged images, which are used
};

// Parameters and buffers as they are now, on the host, row-major.
std::vector<NamedTensor> copied_weights(const ImageModel& model);

std::vector<at::Tensor> without_names(const std::vector<NamedTensor>& items);

// Freezes a part of the model, and returns it.
ImageModel& frozen(ImageModel& model, Freeze what);

// All of it can be read and set. Randomness needs no state: it is a function of `random_seed`, the
// epoch and the image.
struct TrainState {
  // The communicator must outlive the state.
  TrainState(std::unique_ptr<ImageModel> prepared_model, const Recipe& recipe,
             const BucketPlan& buckets, Communicator& communicator)
      : model(std::move(prepared_model)),
        gradients(without_names(frozen(*model, recipe.freeze).trained_parameters()), buckets,
                  communicator),
        optimizer(make_optimizer(recipe.optimizer,
                                 groups_of(*model, gradients.gradients(), recipe.optimizer))),
        exchange(make_all_reduce(*this)),
        epoch(model->parameters().front().device()) {
    if (recipe.ema > 0) averages.emplace(*model, recipe.ema);
    if (recipe.precision == Precision::kFp16) scaler.emplace(model->parameters().front().device());
  }

  // All sums are those of a new epoch.
  void begin_epoch() {
    epoch = EpochSums(model->parameters().front().device());
    if (scaler) scaler->forget_skipped_steps();
  }

  std::unique_ptr<ImageModel> model;
  GradientBuckets gradients;  // cleared between two steps
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Exchange> exchange;       // no state: how the others change
  std::optional<AveragedWeights> averages;  // where they are asked for
  std::optional<LossScaler> scaler;         // of float16
  Progress progress;
  EpochSums epoch;
  ImageFaults bad_train, bad_valid;
  std::uint64_t random_seed = 1;
};

}  // namespace kiln
