// When a run will end, as far as its first steps tell: said once, with a warning where it is days.
#pragma once

#include <optional>
#include <string>

#include "base/training_record.h"

namespace kiln {

// The parts of a run that its first steps do not show.
struct RunLength {
  long long images_per_step = 1;  // on all ranks together
  long long valid_images = 0;     // per epoch, on all ranks together
  int image_side = 0;             // the longer side of training images, in pixels
  bool on_gpu = false;
  double price_per_hour = 0;  // 0: costs are not reported
  double seconds_before = 0;  // of the run in earlier processes
};

struct ForecastText {
  std::string line;
  std::string warning;  // empty: the run takes less than a day
};

// Follows a run until it has reported its forecast. One thread.
class Forecast {
 public:
  explicit Forecast(const RunLength& run) : run_(run) {}

  // After a printed step, for which the device has been waited for. Tells from the first one that
  // follows another of its epoch by 20 steps.
  std::optional<ForecastText> after_step(const StepRecord& step);

  // After an epoch, in case its steps were too few for a forecast.
  std::optional<ForecastText> after_epoch(const EpochRecord& epoch, int num_epochs);

 private:
  std::optional<ForecastText> tell(double images_per_second, double seconds_left, int num_epochs);

  RunLength run_;
  StepRecord first_;  // the first printed step of the epoch; epoch 0: none yet
  bool has_told_ = false;
};

}  // namespace kiln
