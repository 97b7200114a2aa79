#include "train/schedule/schedule.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "train/schedule/catalogue.h"

namespace kiln {

double constant_rate(const SchedulePlan& plan, double epochs);
double cosine_rate(const SchedulePlan& plan, double epochs);
double onecycle_rate(const SchedulePlan& plan, double epochs);
double polynomial_rate(const SchedulePlan& plan, double epochs);

namespace {

constexpr std::array kSchedules = {
    Schedule{"polynomial", polynomial_rate},
    Schedule{"cosine", cosine_rate},
    Schedule{"onecycle", onecycle_rate},
    Schedule{"constant", constant_rate},
};
static_assert(std::ranges::equal(kSchedules, kKnownSchedules, {}, &Schedule::name,
                                 &KnownSchedule::name),
              "one row for each of the catalogue, in its order");

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
  const double epochs = find_known_schedule(plan.name)->is_per_step
                            ? static_cast<double>(step) / plan.steps_per_epoch
                            : static_cast<double>(step / plan.steps_per_epoch);
  return schedule.rate(plan, epochs);
}

}  // namespace kiln
