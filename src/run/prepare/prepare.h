// Turns a configuration into everything that training needs, checks it on all ranks before the
// first step, and builds the initial training state.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/output_folder.h"
#include "data/loader/device_uploader.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "predict/explanations.h"
#include "run/checkpoint/resume.h"
#include "run/checkpoint/saved_run.h"
#include "run/inputs/training_inputs.h"
#include "run/inputs/training_loaders.h"
#include "run/prepare/choices.h"
#include "run/run_trace.h"
#include "store/checkpoint.h"
#include "train/epoch.h"
#include "train/precision.h"
#include "train/recipe.h"
#include "train/state.h"

namespace kiln {

// Everything a run needs besides its state: configuration, data and connections.
struct TrainingJob {
  TrainingJob(const TrainConfig& given, World& ranks, Log& console)
      : config(given), world(ranks), log(console) {}

  TrainConfig config;  // as given, plus what --auto has set
  World& world;
  Log& log;
  Device device;
  PrecisionChoice precision;  // the same on all ranks
  int bound_to = 0;           // number of processors; 0: not bound
  LoaderThreadCount loader_threads;
  TrainingInputs inputs;
  Recipe recipe;
  bool uses_features = false;          // fits a head instead of epochs (run/frozen/frozen_run.h)
  bool is_automatic = false;           // --auto: fits a head as the first epoch (the same file)
  std::unique_ptr<ImageModel> model;   // until make_state() takes it
  std::optional<OutputFolder> output;  // for the model; rank 0
  std::optional<ExplanationFolder> explanations;  // if requested; rank 0
  std::optional<CheckpointFolder> checkpoints;    // rank 0
  std::optional<ResumePoint> resume;              // where the run resumes; empty for a new run
  // Fingerprints of this run's inputs.
  DatasetFingerprint train_fingerprint, valid_fingerprint;
  std::string model_fingerprint;
  std::vector<Choice> choices;      // made by this run; rank 0 logs them
  std::unique_ptr<RunTrace> trace;  // if requested
  // make_state() sets these.
  std::unique_ptr<Communicator> communicator, batch_norm_lane;
  CacheChoice cache;
  std::unique_ptr<DeviceUploader> uploader, valid_uploader;  // the second if the sizes differ
  std::unique_ptr<TrainingLoaders> loaders;

  EpochPlan epoch_plan(int epoch) const;
  // The number of ranks that train; they are the first ones.
  int num_training_ranks() const { return config.ranks.exchange.num_training_ranks(world.size()); }
  // The number of images in one step, over all ranks.
  std::int64_t global_batch() const {
    return std::int64_t{num_training_ranks()} * config.optimization.batch_size *
           config.optimization.accumulate;
  }
  std::size_t num_valid_images() const;  // in the shards of all ranks
  // The number of epochs before those of the schedule: with --auto the first epoch fits the head.
  int first_epochs() const { return is_automatic ? 1 : 0; }
  // The optimizer steps in the epochs before this one, which are complete.
  std::int64_t steps_before(int epoch) const {
    return (epoch - 1 - first_epochs()) * inputs.steps_per_epoch;
  }
  // asked_epochs(): the schedule's epochs as requested by --epochs or --steps. num_epochs(): all
  // epochs of the run, with first_epochs() and within the time limit.
  int asked_epochs() const;
  int num_epochs() const { return first_epochs() + recipe.schedule.epochs; }
  // The last epoch that is trained; --steps may end training before the schedule ends.
  int last_epoch() const;
  int epochs_begun() const;  // epochs that --steps needs; the last may be partial
  // Whether an earlier process completed this run and wrote its model. Then nothing else is
  // prepared.
  bool is_done() const;
  // The uploader for an epoch's images. If their size changes, cuDNN benchmarks its convolutions
  // again. Valid until the next call.
  DeviceUploader& training_uploader(int epoch);
  DeviceUploader& validation_uploader() { return valid_uploader ? *valid_uploader : *uploader; }
};

// The options of the network to train.
ModelOptions model_options(const TrainingInputs& inputs);

// Chooses the device, compares the ranks, finds the checkpoint to resume from, reads the inputs and
// builds the model. All errors of a stage (ranks, checkpoint, inputs) are reported together. A
// collective. The arguments must outlive the job.
std::unique_ptr<TrainingJob> prepare(const TrainConfig& config, World& world, Log& log);

// A copy of the network with the same weights, ready to train.
std::unique_ptr<ImageModel> copied_model(const ImageModel& model, const TrainingJob& job);

// Sets up the communicators and opens the loaders. Every rank starts with rank 0's weights or from
// the checkpoint. A collective. The job must outlive the state.
std::unique_ptr<TrainState> make_state(TrainingJob& job);

}  // namespace kiln
