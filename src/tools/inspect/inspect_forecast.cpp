#include "tools/inspect/inspect_forecast.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_index.h"
#include "model/catalogue.h"
#include "parallel/device/device.h"
#include "parallel/processors/compute_threads.h"
#include "tools/inspect/step_probe.h"
#include "train/precision.h"

namespace kiln {
namespace {

ImageSize size_of(const InspectConfig& config, Dataset& set) {
  if (config.image_size > 0) return {config.image_size, config.image_size};
  scan_sizes(set, SizesWanted::kCommon);
  return automatic_size({&set}).size;
}

}  // namespace

TrainingForecast forecast_training(const InspectConfig& config, Dataset& set) {
  TrainingForecast forecast;
  forecast.size = size_of(config, set);
  StepConfig pace = config.pace;
  pace.size = std::max(forecast.size.height, forecast.size.width);
  pace.classes = std::max(2, static_cast<int>(set.classes.size()));
  if (const int least = known_network(pace.model_name).family().smallest_side(); pace.size < least)
    throw Error(ErrorCode::kUserError,
                formatted("The images have %d pixels, but %s needs at least %d: give a larger "
                          "--image-size.",
                          pace.size, pace.model_name.c_str(), least));
  const Device device = choose_device(pace.device);
  use_compute_threads(usable_cpus());
  keep_freed_memory();
  const PrecisionChoice choice = choose_precision(pace.precision, units_of(device));
  set_tf32(choice.precision);
  const at::Device place = torch_device(device);
  std::vector<double> seconds =
      seconds_of_steps(training_step(pace, choice.precision, place), pace.steps, place);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  forecast.images_per_second = pace.batch_size / *middle;
  forecast.epoch_seconds = static_cast<double>(set.samples.size()) / forecast.images_per_second;
  forecast.run_seconds = forecast.epoch_seconds * config.epochs;
  forecast.peak_memory_bytes = peak_memory_bytes();
  return forecast;
}

std::string forecast_text(const TrainingForecast& forecast, const InspectConfig& config) {
  return formatted("%s at %dx%d pixels, batches of %d: %.1f images/s here, ",
                   config.pace.model_name.c_str(), forecast.size.width, forecast.size.height,
                   config.pace.batch_size, forecast.images_per_second) +
         duration_text(forecast.epoch_seconds) + " per epoch, " +
         duration_text(forecast.run_seconds) +
         formatted(" for %d epochs, without validation; ", config.epochs) +
         bytes_text(forecast.peak_memory_bytes) + " of memory";
}

}  // namespace kiln
