// The learning-rate schedules: a row and a function each, and the rate of a step. The command line
// uses the rows, too, so there is no LibTorch here.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "base/error.h"
#include "train/recipe.h"

namespace kiln {

// A row of the table.
struct KnownSchedule {
  std::string_view name;
  std::string_view description;  // for --help, without a dot at its end
  bool is_per_step;              // false: one rate for a whole epoch
  // After warm-up, to kRateFloor at the end. --time-limit learns that end only after an epoch.
  bool falls;
  // A pure function. `epochs`: trained so far, from 0; an integer unless the schedule is per step.
  double (*rate)(const SchedulePlan& plan, double epochs);
};

// Where warm-up starts, and the lowest rate.
inline constexpr double kWarmupStart = 1e-4;
inline constexpr double kRateFloor = 1e-7;

// Linear warm-up, for `epochs` below plan.warmup_epochs.
inline double warmup_rate(const SchedulePlan& plan, double epochs) {
  return kWarmupStart + (plan.peak - kWarmupStart) * epochs / plan.warmup_epochs;
}

// Linear warm-up from 1e-4, then quadratic decay to 1e-7: the designer's schedule.
//
//   e < W:  rate = 1e-4 + (L - 1e-4) * e / W
//   e >= W: rate = (L - 1e-7) * (1 - (e - W) / (E - W))^2 + 1e-7        e from 0
inline double polynomial_rate(const SchedulePlan& plan, double epochs) {
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return warmup_rate(plan, epochs);
  const double left = 1.0 - (epochs - warmup) / (plan.epochs - warmup);
  return (plan.peak - kRateFloor) * left * left + kRateFloor;
}

// Linear warm-up, then half a cosine down to 1e-7. Loshchilov and Hutter, "SGDR: Stochastic
// Gradient Descent with Warm Restarts", arXiv:1608.03983, without restarts.
//
//   e >= W: rate = 1e-7 + (L - 1e-7) * (1 + cos(pi * (e - W) / (E - W))) / 2        e from 0
inline double cosine_rate(const SchedulePlan& plan, double epochs) {
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return warmup_rate(plan, epochs);
  const double done = (epochs - warmup) / (plan.epochs - warmup);
  return kRateFloor + (plan.peak - kRateFloor) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

// Linear warm-up, then the peak rate until the end.
inline double constant_rate(const SchedulePlan& plan, double epochs) {
  return epochs < plan.warmup_epochs ? warmup_rate(plan, epochs) : plan.peak;
}

// The first one is the default.
inline constexpr auto kKnownSchedules = std::to_array<KnownSchedule>({
    {"polynomial", "with the square of the remaining epochs, once per epoch", false, true,
     polynomial_rate},
    {"cosine", "half a cosine", true, true, cosine_rate},
    {"constant", "not at all", true, false, constant_rate},
});

// Null for an unknown name.
constexpr const KnownSchedule* find_known_schedule(std::string_view name) {
  for (const KnownSchedule& schedule : kKnownSchedules)
    if (schedule.name == name) return &schedule;
  return nullptr;
}

// The learning rate of step `step`, counted from 0 over all epochs. Throws InternalError for a name
// that no row has.
inline double rate(const SchedulePlan& plan, std::int64_t step) {
  const KnownSchedule* schedule = find_known_schedule(plan.name);
  if (schedule == nullptr) throw InternalError("no schedule is called " + plan.name);
  const std::int64_t whole_epochs = step / plan.steps_per_epoch;
  return schedule->rate(plan, schedule->is_per_step
                                  ? static_cast<double>(step) / plan.steps_per_epoch
                                  : static_cast<double>(whole_epochs));
}

}  // namespace kiln
