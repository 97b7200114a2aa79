#include "train/schedule.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kiln {

double polynomial_rate(const SchedulePlan& plan, double epochs);

namespace {

constexpr std::array kSchedules = {
    Schedule{"polynomial", /*is_per_step=*/false, polynomial_rate},
};

}  // namespace

const Schedule& find_schedule(const SchedulePlan& plan) {
  const auto* const found =
      std::find_if(kSchedules.begin(), kSchedules.end(),
                   [&](const Schedule& schedule) { return schedule.name == plan.name; });
  if (found == kSchedules.end()) throw InternalError("no schedule is called " + plan.name);
  return *found;
}

double rate(const SchedulePlan& plan, std::int64_t step) {
  const Schedule& schedule = find_schedule(plan);
  const double epochs = schedule.is_per_step ? static_cast<double>(step) / plan.steps_per_epoch
                                             : static_cast<double>(step / plan.steps_per_epoch);
  return schedule.rate(plan, epochs);
}

}  // namespace kiln
