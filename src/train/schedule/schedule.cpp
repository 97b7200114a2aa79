#include "train/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "train/schedule/catalogue.h"

namespace kiln {
namespace {

// Linear warm-up from 1e-4, then quadratic decay to 1e-7: the designer's schedule.
//
//   e < W:  rate = 1e-4 + (L - 1e-4) * e / W
//   e >= W: rate = (L - 1e-7) * (1 - (e - W) / (E - W))^2 + 1e-7        e from 0
double polynomial_rate(const SchedulePlan& plan, double epochs) {
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return warmup_rate(plan, epochs);
  const double left = 1.0 - (epochs - warmup) / (plan.epochs - warmup);
  return (plan.peak - kRateFloor) * left * left + kRateFloor;
}

// Linear warm-up, then half a cosine down to 1e-7. Loshchilov and Hutter, "SGDR: Stochastic
// Gradient Descent with Warm Restarts", arXiv:1608.03983, without restarts.
//
//   e >= W: rate = 1e-7 + (L - 1e-7) * (1 + cos(pi * (e - W) / (E - W))) / 2        e from 0
double cosine_rate(const SchedulePlan& plan, double epochs) {
  const double warmup = plan.warmup_epochs;
  if (epochs < warmup) return warmup_rate(plan, epochs);
  const double done = (epochs - warmup) / (plan.epochs - warmup);
  return kRateFloor + (plan.peak - kRateFloor) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

constexpr double kStartDivisor = 25, kEndDivisor = 1e4, kUsualShare = 0.3;

// From `start` to `end`, as `done` goes from 0 to 1.
double between(double start, double end, double done) {
  return end + (start - end) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

// Rises along half a cosine from 1/25 of the peak to the peak, then falls along another to 1/10,000
// of the starting rate. Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks
// Using Large Learning Rates", arXiv:1708.07120. The constants are those of PyTorch's OneCycleLR,
// which also cycles the momentum.
//
// Let u be the time of a step, in epochs. The peak is the last rate of the first W epochs, reached
// after W - u epochs. The lowest rate is the last one, reached after E - u epochs.
double onecycle_rate(const SchedulePlan& plan, double epochs) {
  const double unit = 1.0 / plan.steps_per_epoch;
  const double warmup = plan.warmup_epochs > 0 ? plan.warmup_epochs : kUsualShare * plan.epochs;
  const double start = plan.peak / kStartDivisor, top = warmup - unit, end = plan.epochs - unit;
  if (epochs < top) return between(start, plan.peak, epochs / top);
  const double done = end > top ? (epochs - top) / (end - top) : 0;
  return between(plan.peak, start / kEndDivisor, std::clamp(done, 0.0, 1.0));
}

// Linear warm-up, then the peak rate until the end.
double constant_rate(const SchedulePlan& plan, double epochs) {
  return epochs < plan.warmup_epochs ? warmup_rate(plan, epochs) : plan.peak;
}

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
