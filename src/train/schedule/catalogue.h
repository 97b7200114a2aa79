// The learning-rate schedules: a row and a function each, and the rate of a step. The command line
// uses the rows, too, so there is no LibTorch here.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "train/recipe.h"

namespace kiln {

// Where warm-up starts, and the lowest rate.
inline constexpr double kWarmupStart = 1e-4;
inline constexpr double kRateFloor = 1e-7;

// A row of the table. All warm up linearly from 1e-4:
//
//   e < W:  rate = 1e-4 + (L - 1e-4) * e / W        e from 0
struct KnownSchedule {
  std::string_view name;
  std::string_view description;  // for --help, without a dot at its end
  bool is_per_step;              // false: one rate for a whole epoch, also if it is the last part
  // What is left of `height` above kRateFloor after the share `done` of the time after warm-up.
  // Null: the rate stays. --time-limit learns that time only after an epoch.
  double (*fall)(double height, double done);
};

// The designer's: L falls with ((E - e) / (E - W))^2.
inline double polynomial_fall(double height, double done) {
  const double left = 1.0 - done;
  return height * left * left;
}

// Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", arXiv:1608.03983,
// without restarts: half a cosine.
inline double cosine_fall(double height, double done) {
  return height * (1 + std::cos(std::numbers::pi * done)) / 2;
}

// The first one is the default.
inline constexpr auto kKnownSchedules = std::to_array<KnownSchedule>({
    {"polynomial", "with the square of the remaining epochs, once per epoch", false,
     polynomial_fall},
    {"cosine", "half a cosine", true, cosine_fall},
    {"constant", "not at all", true, nullptr},
});

// The learning rate of step `step`, counted from 0 over all epochs. Throws InternalError for a name
// that no row has.
inline double rate(const SchedulePlan& plan, std::int64_t step) {
  const KnownSchedule* schedule = find_row(kKnownSchedules, plan.name);
  if (schedule == nullptr) throw InternalError("no schedule is called " + plan.name);
  const std::int64_t whole_epochs = step / plan.steps_per_epoch;
  const double epochs = schedule->is_per_step ? static_cast<double>(step) / plan.steps_per_epoch
                                              : static_cast<double>(whole_epochs);
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return kWarmupStart + (plan.peak - kWarmupStart) * epochs / warmup;
  if (schedule->fall == nullptr) return plan.peak;
  const double all = schedule->is_per_step ? plan.epochs : std::ceil(plan.epochs);
  const double done = (epochs - warmup) / (all - warmup);
  return kRateFloor + schedule->fall(plan.peak - kRateFloor, done);
}

}  // namespace kiln
