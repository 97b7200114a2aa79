// A network's training step on random images, to measure its speed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "cli/run_config.h"
#include "model/image_model.h"

namespace kiln {

std::unique_ptr<ImageModel> random_model(const StepConfig& config, at::Device device);
at::Tensor random_images(const StepConfig& config, at::Device device);

// Each call is a step of a fresh model on the same batch.
std::function<void()> training_step(const StepConfig& config, Precision precision,
                                    at::Device device);

// The duration of each step, after three warm-up steps. As in training, a GPU is not waited for in
// every step but in every tenth, whose mean each of the ten gets, and cuDNN chooses its algorithms
// by measuring.
std::vector<double> seconds_of_steps(const std::function<void()>& step, int num_steps,
                                     at::Device device);

void wait_for(at::Device device);

}  // namespace kiln
