// Estimates from its first steps when a run will end. Reported once, with a warning if it takes
// days.
#pragma once

#include <optional>
#include <string>

#include "record/training_record.h"

namespace kiln {

// What the first steps do not show about a run.
struct RunLength {
  long long images_per_step = 1;  // over all ranks
  long long valid_images = 0;     // per epoch, over all ranks
  int image_side = 0;             // the longer side of training images, in pixels
  bool on_gpu = false;
  double price_per_hour = 0;  // 0: costs are not reported
  double seconds_before = 0;  // spent on the run by earlier processes
};

struct ForecastText {
  std::string line;
  std::string warning;  // empty: the run takes less than a day
};

// Follows a run until the forecast has been reported. One thread.
class Forecast {
 public:
  explicit Forecast(const RunLength& run) : run_(run) {}

  // Call after a printed step, once the device has been waited for. Returns the forecast at the
  // first such step that is 20 steps after the first printed one of its epoch.
  std::optional<ForecastText> after_step(const StepRecord& step);

  // Call after an epoch. Returns the forecast if its steps were too few for one.
  std::optional<ForecastText> after_epoch(const EpochRecord& epoch, int num_epochs);

 private:
  std::optional<ForecastText> tell(double images_per_second, double seconds_left, int num_epochs);

  RunLength run_;
  StepRecord first_;  // the first printed step of the epoch; epoch 0: none yet
  bool has_told_ = false;
};

}  // namespace kiln
