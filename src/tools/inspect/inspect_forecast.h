// Predicts how long training on a folder of images would take on this machine, from a short probe.
#pragma once

#include "cli/run_config.h"
#include "data/dataset/dataset.h"

namespace kiln {

struct TrainingForecast {
  ImageSize size;
  double images_per_second = 0;               // steps on random images; loading runs in parallel
  double epoch_seconds = 0, run_seconds = 0;  // without validation
  long long peak_memory_bytes = 0;
};

// `config.pace` must name a network; if its size is 0, the size is derived from the images. Runs
// steps for about ten seconds. Throws Error kUserError if the network cannot take that size.
TrainingForecast forecast_training(const InspectConfig& config, Dataset& set);

// "resnet18 at 32x32 pixels, batches of 16: 412.0 images/s here, …".
std::string forecast_text(const TrainingForecast& forecast, const InspectConfig& config);

}  // namespace kiln
