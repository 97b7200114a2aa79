// A run that was opened: what prepare() found and decided, and what begin() has set up for its
// steps.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/output_folder.h"
#include "data/loader/device_uploader.h"
#include "parallel/gradients/communicator.h"
#include "parallel/ranks/world.h"
#include "predict/explanations.h"
#include "run/bad_images.h"
#include "run/checkpoint/checkpoints.h"
#include "run/checkpoint/saved_run.h"
#include "run/disk_space.h"
#include "run/first_batches.h"
#include "run/inputs/sources.h"
#include "run/inputs/training_loaders.h"
#include "run/predecessor.h"
#include "run/prepare/plan.h"
#include "run/run_logger.h"
#include "run/run_trace.h"
#include "run/stop.h"
#include "train/features/head_fit.h"
#include "train/state.h"

namespace kiln {

// What is decided before the first step. Of the sources only the images' hashes change.
struct Job {
  World& world;
  Log& console;
  const TrainConfig config;
  const Machine machine;
  const Plan plan;
  Sources sources;
  const Fingerprints fingerprints;

  std::size_t num_valid_images() const;  // in the shards of all ranks
};

// A job and what lives while it runs. Members are destroyed in reverse: what uses others comes
// after them. One thread.
struct Run : Job {
  // Where results go; on rank 0, but for the trace.
  std::optional<OutputFolder> model_folder;
  Predecessor predecessor;
  std::optional<ExplanationFolder> explanations;           // if requested
  std::unique_ptr<RunTrace> trace;                         // if requested
  std::unique_ptr<ImageModel> model;                       // until begin() takes it
  std::optional<CheckpointFolder> checkpoint_folder = {};  // rank 0
  std::optional<ResumePoint> resume = {};  // where the run resumes; empty for a new run
  RunClock clock = {};
  RunLogger log{config.output, world.leads(), machine.device, clock, predecessor, console};

  // begin() sets these.
  std::unique_ptr<Communicator> communicator = {}, batch_norm_lane = {};
  CacheChoice cache = {};
  std::shared_ptr<const Task> train_task = {}, valid_task = {};  // what their labels mean
  std::shared_ptr<DeviceUploader> train_uploader = {}, valid_uploader = {};  // one for one size
  std::unique_ptr<TrainingLoaders> loaders = {};
  std::unique_ptr<TrainState> state = {};
  std::optional<FirstBatches> first_batches = {};  // on rank 0 of a new run
  std::optional<DiskSpace> disk_space = {};
  std::optional<BadImageLedger> bad_train = {}, bad_valid = {};
  std::optional<Stop> stop = {};
  std::optional<Checkpoints> checkpoints = {};
  FeatureSets features = {};  // on rank 0: that a head was fitted to, or of the last pass
};

}  // namespace kiln
