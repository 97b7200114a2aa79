// How long training on a folder of images would take here, from a short probe.
#pragma once

#include "config/run_config.h"
#include "data/dataset/dataset.h"

namespace kiln {

struct TrainingForecast {
  ImageSize size;
  double images_per_second = 0;               // of steps on random images: loading runs beside them
  double epoch_seconds = 0, run_seconds = 0;  // without validation
  long long peak_memory_bytes = 0;
};

// `config.pace` is set; its size follows from the images where it is 0. Takes some ten seconds of
// steps. Throws Error kUserError for a size that the network cannot take.
TrainingForecast forecast_training(const InspectConfig& config, Dataset& set);

// "resnet18 at 32x32 pixels, batches of 16: 412.0 images/s here, …".
std::string forecast_text(const TrainingForecast& forecast, const InspectConfig& config);

}  // namespace kiln
