// Turns a configuration into everything that training needs, checked on all ranks before the first
// step, and builds the initial training state.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/output_folder.h"
#include "data/loader/device_uploader.h"
#include "inputs/training_inputs.h"
#include "inputs/training_loaders.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "predict/explanations.h"
#include "run/checkpoint/resume.h"
#include "run/checkpoint/saved_run.h"
#include "run/plan/choices.h"
#include "run/run_trace.h"
#include "store/checkpoint.h"
#include "train/compute_device.h"
#include "train/epoch.h"
#include "train/precision.h"
#include "train/recipe.h"
#include "train/state.h"

namespace kiln {

// Everything a run needs besides its state: configuration, data and connections.
struct TrainingJob {
  TrainingJob(const TrainConfig& given, World& ranks, Log& console)
      : config(given), world(ranks), log(console) {}

  TrainConfig config;  // as given, and what --auto has settled
  World& world;
  Log& log;
  Device device;
  PrecisionChoice precision;  // the same on all ranks
  int bound_to = 0;           // processors; 0: not bound
  LoaderThreadCount loader_threads;
  TrainingInputs inputs;
  Recipe recipe;
  bool uses_features = false;  // run/frozen/frozen_run instead of epochs
  bool is_automatic = false;   // run/frozen/frozen_run before epochs: --auto
  // With --folds, where the network itself is trained: the part of each training image, from 0.
  // Else empty.
  std::vector<int> fold_of;
  std::unique_ptr<ImageModel> model;              // until make_state() takes it
  std::optional<OutputFolder> output;             // of the model; rank 0
  std::optional<ExplanationFolder> explanations;  // if asked for; rank 0
  std::optional<CheckpointFolder> checkpoints;    // rank 0
  std::optional<ResumePoint> resume;              // where the run resumes; empty: it starts
  // Fingerprints of this run's inputs.
  DatasetPrint train_print, valid_print;
  std::string model_print;
  std::vector<Choice> choices;      // made by this run; rank 0 logs them
  std::unique_ptr<RunTrace> trace;  // if asked for
  // make_state() sets these.
  std::unique_ptr<Communicator> communicator, batch_norm_lane;
  std::unique_ptr<Communicator> no_sums;  // for gradients that a parameter server combines
  CacheChoice cache;
  std::unique_ptr<DeviceUploader> uploader, valid_uploader;  // the second if the sizes differ
  std::unique_ptr<TrainingLoaders> loaders;

  EpochPlan epoch_plan(int epoch) const;
  BucketPlan buckets() const;
  // Ranks that train: all but the servers of a parameter server, which are the last.
  int num_workers() const { return config.ranks.exchange.num_workers(world.size()); }
  // The images of one step, over all workers.
  std::int64_t global_batch() const {
    return std::int64_t{num_workers()} * config.optimization.batch_size *
           config.optimization.accumulate;
  }
  std::size_t num_valid_images() const;  // in the shards of all ranks
  // The epochs before those of the schedule: with --auto the first one fits the head.
  int first_epochs() const { return is_automatic ? 1 : 0; }
  // run/folds/folds_run before epochs: its networks judge, and the last epoch is the one that is
  // kept.
  bool trains_folds() const { return !fold_of.empty(); }
  // Optimizer steps of the epochs before this one, which are whole.
  std::int64_t steps_before(int epoch) const {
    return (epoch - 1 - first_epochs()) * inputs.steps_per_epoch;
  }
  // The epochs over which the schedule runs: asked_epochs() as --epochs or --steps ask for them,
  // num_epochs() with first_epochs(), and as many as a time limit has left.
  int asked_epochs() const;
  int num_epochs() const { return first_epochs() + recipe.schedule.epochs; }
  // The last epoch that is trained; --steps may end before the schedule does.
  int last_epoch() const;
  int epochs_begun() const;  // that --steps need, the last perhaps in part
  // Whether the run has ended before, with its model in place. Then nothing else is prepared.
  bool is_done() const;
  // Of an epoch's images; cuDNN measures its convolutions anew where their size changes. Valid
  // until the next call.
  DeviceUploader& training_uploader(int epoch);
  DeviceUploader& validation_uploader() { return valid_uploader ? *valid_uploader : *uploader; }
};

// The options of the network that is trained.
ModelOptions model_options(const TrainingInputs& inputs);

// Chooses the device, compares the ranks, finds the checkpoint to go on from, reads the inputs and
// builds the model. Faults are reported together, stage by stage: ranks, checkpoint, inputs. A
// collective. The arguments must outlive the job.
std::unique_ptr<TrainingJob> prepare(const TrainConfig& config, World& world, Log& log);

// A copy of the network with the same weights, ready to train.
std::unique_ptr<ImageModel> copied_model(const ImageModel& model, const TrainingJob& job);

// Loaders of these inputs, which must outlive them, by the options of the job. `cache` is of them.
std::unique_ptr<TrainingLoaders> loaders_of(const TrainingJob& job, TrainingInputs& inputs,
                                            const CacheChoice& cache);

// Sets up the communicators and opens the loaders; every rank starts from rank 0's weights, or from
// the checkpoint. A collective. The job must outlive the state.
std::unique_ptr<TrainState> make_state(TrainingJob& job);

}  // namespace kiln
