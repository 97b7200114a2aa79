// Estimates from its first steps when a run will end, with a warning if it takes days; told again
// after an epoch that shows the time left to be off by more than a tenth and a minute.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "record/training_record.h"

namespace kiln {

// What the first steps do not show about a run.
struct RunLength {
  std::vector<double> epoch_steps;  // of the epochs that are trained, from the first
  long long steps = 0;              // --steps, which ends training; 0: not given
  long long images_per_step = 1;    // over all ranks
  long long valid_images = 0;       // per epoch, over all ranks
  double valid_pixels = 1;          // of a validation image, divided by those of a training image
  std::function<std::string()> peak_memory = {};  // so far, as text; may be empty
  double price_per_hour = 0;                      // 0: costs are not reported
  double seconds_before = 0;                      // spent on the run by earlier processes
};

struct ForecastText {
  std::string line;
  std::string warning;  // empty: the run takes less than a day
};

// The seconds that the training steps to come take if they are as fast as those of this epoch.
double seconds_of_steps_left(const StepRecord& timing);

// Follows a run. An image takes time in proportion to its pixels. One thread.
class Forecast {
 public:
  explicit Forecast(RunLength run);

  // Call after a printed step, once the device has been waited for. Returns the forecast at the
  // first such step that is 20 steps after the first printed one of its epoch.
  std::optional<ForecastText> after_step(const StepRecord& step);

  // Call after an epoch. Returns the forecast if its steps were too few for one, or the last one
  // was wrong.
  std::optional<ForecastText> after_epoch(const EpochRecord& epoch);

  // The seconds to the end of the run, with validation, after a step.
  double seconds_left(const StepRecord& timing) const;

 private:
  std::optional<ForecastText> announced(double images_per_second, double seconds_left);
  double steps_of(int epoch) const { return run_.epoch_steps[static_cast<std::size_t>(epoch) - 1]; }
  double seconds_left(int epoch, double steps_left, double step_seconds) const;
  double validation_seconds(double step_seconds) const;

  RunLength run_;
  std::vector<double> steps_after_;  // by epoch, from 0: those of the later ones
  double valid_seconds_ = 0;         // of the last epoch; 0: there was none
  StepRecord first_;                 // the first printed step of the epoch; epoch 0: none yet
  std::optional<double> end_;        // as told, in seconds since the process began
};

}  // namespace kiln
