// A network's training step, or its bare forward pass, measured on random images.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "config/run_config.h"
#include "train/operator_times.h"
#include "train/precision.h"

namespace kiln {

struct StepFigures {
  std::vector<double> seconds;  // of each step
  OperatorSums operators;       // of one more step
  double observed_seconds = 0;  // its length
};

// Both wait for the device after every step, three of which warm up. One thread.
StepFigures measure_training(const BenchStepConfig& config, Precision precision, at::Device device);
// What Predictor::logits() does with a batch.
StepFigures measure_inference(const BenchStepConfig& config, Precision precision,
                              at::Device device);

void wait_for(at::Device device);

}  // namespace kiln
