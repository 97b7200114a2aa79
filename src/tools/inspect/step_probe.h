// Measures a network's training step, or its forward pass alone, on random images.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cli/run_config.h"
#include "train/operator_times.h"
#include "train/precision.h"

namespace kiln {

struct StepFigures {
  std::vector<double> seconds;  // duration of each step; on a GPU, the mean of it and its neighbors
  OperatorSums operators;       // operators of one further step
  double observed_seconds = 0;  // duration of that step
};

// Both functions start with three warm-up steps. As in training, a GPU is not waited for in every
// step but in every tenth, and cuDNN chooses its algorithms by measuring. Use from one thread.
StepFigures measure_training(const BenchStepConfig& config, Precision precision, at::Device device);
// Measures what Predictor::logits() does with a batch.
StepFigures measure_inference(const BenchStepConfig& config, Precision precision,
                              at::Device device);

void wait_for(at::Device device);

}  // namespace kiln
