// The learning rate of a step. A schedule is a pure function of the plan and the time trained. Each
// is a function and a row of the table in schedule.cpp, and a row of the catalogue.
#pragma once

#include <cstdint>
#include <string_view>

#include "train/recipe.h"

namespace kiln {

struct Schedule {
  std::string_view name;
  // `epochs`: trained so far, from 0; an integer unless the schedule is per step.
  double (*rate)(const SchedulePlan& plan, double epochs) = nullptr;
};

// Throws InternalError for a name that no row has.
const Schedule& find_schedule(const SchedulePlan& plan);

// The learning rate of step `step`, counted from 0 over all epochs.
double rate(const SchedulePlan& plan, std::int64_t step);

// Where warm-up starts, and the lowest rate. Not used by onecycle.
inline constexpr double kWarmupStart = 1e-4;
inline constexpr double kRateFloor = 1e-7;

// Linear warm-up, for `epochs` below plan.warmup_epochs. Used by all schedules except onecycle.
inline double warmup_rate(const SchedulePlan& plan, double epochs) {
  return kWarmupStart + (plan.peak - kWarmupStart) * epochs / plan.warmup_epochs;
}

}  // namespace kiln
