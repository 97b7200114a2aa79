// What a run will do, decided before its first step from the options, the machine and the images.
// Nothing in it changes afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/run_config.h"
#include "cli/settings.h"
#include "model/image_model.h"
#include "parallel/device/device.h"
#include "parallel/ranks/world.h"
#include "run/checkpoint/resume.h"
#include "run/inputs/sources.h"
#include "run/inputs/training_loaders.h"
#include "run/stop.h"
#include "train/precision.h"
#include "train/recipe.h"

namespace kiln {

// What this rank computes with.
struct Machine {
  Device device;
  int num_bound_cpus = 0;  // 0: not bound
  LoaderThreadCount loader_threads;
};

struct Plan {
  PrecisionChoice precision;   // the same on all ranks
  bool uses_features = false;  // fits a head instead of epochs (run/frozen/frozen_run.h)
  bool is_automatic = false;   // --auto: fits a head as the first epoch (the same file)
  // Why no features are kept with the model (run/saved_features.h); empty: they are to be.
  std::string without_features = {};
  PixelPlan pixels;
  Division division;
  LoadingPlan loading;
  double learning_rate = 0;  // before scaling by the number of ranks
  Recipe recipe;  // its schedule has all epochs that were asked for; see Stop::scheduled_epochs()
  StopRule stop;
  int num_training_ranks = 1;         // the first ranks
  std::int64_t global_batch = 1;      // images in one step, over all ranks
  OptionTexts texts_in_effect;        // see repeat_file.h
  Settings settings;                  // with what this run has found; rank 0 logs it
  std::vector<std::string> warnings;  // of memory
};

// What make_plan() decides from.
struct PlanInputs {
  const TrainConfig& config;
  const Machine& machine;
  const std::optional<ResumePoint>& resume;
  const Sources& sources;
  const ImageModel& model;
};

// The options of the network to train.
ModelOptions model_options(const Sources& sources);

// Decides how to train, first of all whether in epochs (--auto, --freeze backbone, --folds). A
// collective. Throws Error kUserError for options that do not fit each other or these images, and
// kModuleOutOfMemory for steps that cannot fit.
Plan make_plan(const PlanInputs& given, PixelPlan pixels, Division division,
               const std::vector<Setting>& found, World& world);

// What --freeze backbone alone would have been given, after --auto left out fine-tuning.
Settings settings_of_frozen_alone(Settings settings, const Settings& asked,
                                  const std::string& reason);

}  // namespace kiln
