// All mutable state of training in one struct: exactly what a checkpoint must contain. And what
// keeps the ranks' replicas of a model identical.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/image_model.h"
#include "parallel/gradients/communicator.h"
#include "parallel/gradients/gradient_buckets.h"
#include "parallel/ranks/world.h"
#include "record/training_record.h"
#include "train/evaluation.h"
#include "train/exchange/exchange.h"
#include "train/optimizer/optimizer.h"
#include "train/recipe.h"

namespace kiln {

// The epoch whose weights are kept.
struct BestEpoch {
  int epoch = 0;    // from 1; 0: none yet
  Totals valid;     // over all ranks
  double mean = 0;  // as in JudgedEpoch
  Calibration calibration = {};
  // copied_weights() of that epoch; on rank 0 only.
  std::vector<NamedTensor> weights = {};
};

// What a time limit has decided so far.
struct TimePlan {
  int epochs = 0;            // epochs that fit, for the schedule; 0: not decided yet
  double epoch_seconds = 0;  // expected for each of them
  double end_seconds = 0;    // from the last step of an epoch to its record; 0: not known yet
  bool is_over = false;      // no further step is made, though some are left
  std::int64_t steps = 0;    // made in the whole run when it was over
};

// What --auto has found so far.
struct AutomaticProgress {
  AutomaticRecord found;
  double frozen_mean = 0, tuned_mean = 0;  // as in JudgedEpoch; of the epoch found.tuned_epoch
};

// Early stopping, based on the validation of each epoch.
struct EarlyStopping {
  int patience = 3;
  int strikes = 0;
  double previous_loss = std::numeric_limits<double>::infinity();

  // Counts consecutive epochs whose validation loss is not below the previous epoch's. The loss
  // must be finite.
  void add(double loss) {
    strikes = loss >= previous_loss ? strikes + 1 : 0;
    previous_loss = loss;
  }
  bool exhausted() const { return strikes >= patience; }
};

struct Progress {
  int epochs_done = 0;
  BestEpoch best;
  EarlyStopping early_stopping;
  std::optional<TimePlan> time_plan;           // for a run with a time limit
  std::optional<AutomaticProgress> automatic;  // with --auto, once the head is fitted
};

// Where an epoch's time went on this rank.
struct EpochTimes {
  double seconds = 0, data_wait_seconds = 0;
  StepTimes parts;
  CommunicationTime communication;  // zero if it is not measured
};

// Those of EpochSums that are plain values.
struct EpochNumbers {
  int steps = 0;                     // finished so far
  bool statistics_averaged = false;  // BatchNorm's statistics have been averaged over the ranks
  // For the designer's averages, which are weighted by images.
  double images = 0, weighted_seconds = 0, weighted_rate = 0;
  EpochTimes spent = {};
};

// This rank's totals for the current epoch; empty between epochs.
struct EpochSums : EpochNumbers {
  explicit EpochSums(const at::Device& device) : metrics(device) {}

  MetricSums metrics;
};

// Images of one dataset that could not be decoded fully or at all. The same on all ranks, unless
// each has its own shard.
struct ImageFaults {
  std::set<std::uint32_t> samples;  // indices into the dataset's samples
  std::vector<ImageFaultRecord> records;
  int num_bad = 0;  // skipped; the other records are damaged images, which are used
};

// Row-major copies of the parameters and buffers on the host.
std::vector<NamedTensor> copied_weights(const ImageModel& model);

// Everything in it can be read and set. Randomness needs no further state: it is a function of
// `random_seed`, the epoch and the image.
struct TrainState {
  // The communicator must outlive the state.
  TrainState(std::unique_ptr<ImageModel> prepared_model, const Recipe& recipe,
             const BucketPlan& buckets, Communicator& communicator)
      : model(std::move(prepared_model)),
        gradients((model->freeze(recipe.freeze), without_names(model->trained_parameters())),
                  buckets, communicator),
        optimizer(make_optimizer(recipe.optimizer,
                                 groups_of(*model, gradients.gradients(), recipe.optimizer))),
        exchange(make_all_reduce(*this)),
        epoch(model->parameters().front().device()) {
    if (recipe.ema > 0) averages.emplace(*model, recipe.ema);
    if (recipe.precision == Precision::kFp16) scaler.emplace(model->parameters().front().device());
  }

  // Resets all sums for a new epoch.
  void begin_epoch() {
    epoch = EpochSums(model->parameters().front().device());
    if (scaler) scaler->forget_skipped_steps();
  }

  std::unique_ptr<ImageModel> model;
  GradientBuckets gradients;  // cleared between two steps
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Exchange> exchange;       // stateless: how the members above change
  std::optional<AveragedWeights> averages;  // if requested
  std::optional<LossScaler> scaler;         // for float16
  Progress progress;
  EpochSums epoch;
  ImageFaults bad_train, bad_valid;
  std::uint64_t random_seed = 1;
};

// The rest are collectives: all ranks call them at the same point; no-ops for a single rank.

// Copies rank 0's values of these tensors to every rank.
void broadcast_tensors(const std::vector<NamedTensor>& tensors, Communicator& communicator);

// Sets BatchNorm's running statistics on every rank to their mean over the ranks, and its batch
// counts to their maximum, since a rank that skipped a batch has counted fewer. `state` is named as
// in a model's state(). Only the first `num_training_ranks` ranks train and have statistics.
void average_statistics(const std::vector<NamedTensor>& state, Communicator& communicator,
                        World& world, int num_training_ranks);

// Unless all parameters and buffers are bitwise equal, fails as World::agree() on all ranks, with
// Error kFailedToCompleteOperation that names the first tensor that differs and on which ranks.
void require_equal_replicas(const ImageModel& model, World& world);

}  // namespace kiln
