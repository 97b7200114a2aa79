// The learning rate of a step. A schedule is a pure function of the plan and the time trained: one
// file schedule_NAME.cpp and one row of the table in schedule.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "train/recipe.h"

namespace kiln {

struct Schedule {
  std::string_view name;
  bool is_per_step = false;  // else one rate for a whole epoch
  // `epochs` trained so far, from 0; whole unless is_per_step.
  double (*rate)(const SchedulePlan& plan, double epochs) = nullptr;
};

// Throws InternalError for a name that no row has.
const Schedule& find_schedule(const SchedulePlan& plan);

// Of step `step`, counted from 0 since the first epoch.
double rate(const SchedulePlan& plan, std::int64_t step);

// Where the polynomial schedule's warm-up begins, and the floor that it falls to.
inline constexpr double kWarmupStart = 1e-4;
inline constexpr double kRateFloor = 1e-7;

}  // namespace kiln
