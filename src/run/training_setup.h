// From a configuration to everything that training needs, checked on all ranks before the first
// step.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "base/training_record.h"
#include "model/image_model.h"
#include "parallel/device.h"
#include "parallel/world.h"
#include "run/training_inputs.h"

namespace kiln {

struct TrainingSetup {
  Device device;
  int num_processors = 1;  // for this rank
  TrainingInputs inputs;
  std::unique_ptr<ImageModel> model;  // on the device, in its final memory format
};

// The same for LibTorch.
at::Device torch_device(const Device& device);

// Chooses the device, compares the ranks, reads the inputs and builds the model. Everything that
// can be found wrong before the first step is told together. All ranks call it.
TrainingSetup set_up_training(const TrainConfig& config, World& world);

}  // namespace kiln
