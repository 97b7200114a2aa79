// A network's training step on random images, to measure its speed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "cli/run_config.h"
#include "data/image/image.h"
#include "model/image_model.h"

namespace kiln {

std::unique_ptr<ImageModel> random_model(const StepConfig& config, at::Device device);
at::Tensor random_images(const StepConfig& config, ImageSize size, at::Device device);

// Each call is a step of a fresh model on the same batch of images of that size.
std::function<void()> training_step(const StepConfig& config, ImageSize size, Precision precision,
                                    at::Device device);

void wait_for(at::Device device);

// What a training job needs, by a few of its steps.
struct Pace {
  double images_per_second = 0;
  double memory_bytes = 0;  // peak of this process; on a GPU, of the GPU's memory
  // What was measured, if the job's own steps would take too long: fewer images in a step, or
  // smaller ones. The figures are scaled by the number of pixels.
  int batch_size = 0;
  ImageSize size = {};
};

// Takes about fifteen seconds at most: begins with steps of a few small images. `tell`: called
// after each step with the share that is done.
Pace pace_of(const StepConfig& config, ImageSize size, Precision precision, at::Device device,
             const std::function<void(double)>& tell);

}  // namespace kiln
