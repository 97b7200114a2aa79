#include "run/forecast.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

constexpr int kEnoughSteps = 20;
constexpr double kWorthLogging = 60;  // seconds
constexpr double kMaxError = 0.1;     // of the time left; beyond it a forecast is told again
constexpr double kHour = 60 * 60;     // seconds
constexpr double kDay = 24 * kHour;   // seconds
// A step is a forward pass plus a backward pass, which takes twice the arithmetic.
constexpr double kForwardShare = 1.0 / 3;

// "2026-03-01 14:05", in the time zone of the process.
std::string clock_text(double seconds_from_now) {
  const auto when = static_cast<std::time_t>(unix_seconds() + seconds_from_now);
  std::tm parts{};
  char text[32];
  if (::localtime_r(&when, &parts) == nullptr) return "an unknown time";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts)};
}

// "all 90 epochs", "all 1,000 steps".
std::string what_will_finish(const RunLength& run) {
  if (run.steps > 0) return "all " + plural(run.steps, "step", "steps");
  if (run.epoch_steps.size() == 1) return "the epoch and its validation";
  return formatted("all %zu epochs", run.epoch_steps.size());
}

// "; cost 0.05 so far, about 12.30 in total".
std::string cost_text(const RunLength& run, double seconds_left) {
  if (run.price_per_hour == 0) return "";
  const double so_far = run.seconds_before + seconds_since_process_start();
  return "; cost " + price_text(run.price_per_hour * so_far / kHour) + " so far, about " +
         price_text(run.price_per_hour * (so_far + seconds_left) / kHour) + " in total";
}

}  // namespace

double seconds_of_steps_left(const StepRecord& timing) {
  const double steps_left =
      timing.num_steps - timing.step +
      static_cast<double>(timing.num_epochs - timing.epoch) * timing.num_steps;
  return timing.elapsed_seconds / timing.step * steps_left;
}

Forecast::Forecast(RunLength run) : run_(std::move(run)), steps_after_(run_.epoch_steps.size()) {
  for (std::size_t i = run_.epoch_steps.size(); i-- > 1;)
    steps_after_[i - 1] = steps_after_[i] + run_.epoch_steps[i];
}

double Forecast::validation_seconds(double step_seconds) const {
  if (valid_seconds_ > 0) return valid_seconds_;
  const double steps =
      static_cast<double>(run_.valid_images) / static_cast<double>(run_.images_per_step);
  return steps * run_.valid_pixels * step_seconds * kForwardShare;
}

double Forecast::seconds_left(int epoch, double steps_left, double step_seconds) const {
  const std::size_t place = static_cast<std::size_t>(epoch) - 1;
  const auto validations = static_cast<double>(run_.epoch_steps.size() - place);
  return (steps_left + steps_after_[place]) * step_seconds +
         validations * validation_seconds(step_seconds);
}

double Forecast::seconds_left(const StepRecord& timing) const {
  return seconds_left(timing.epoch, steps_of(timing.epoch) - timing.step,
                      timing.elapsed_seconds / timing.step);
}

std::optional<ForecastText> Forecast::announced(double images_per_second, double seconds_left) {
  end_ = seconds_since_process_start() + seconds_left;
  if (seconds_left < kWorthLogging) return std::nullopt;
  ForecastText text;
  text.line = formatted("At %.1f images/s ", images_per_second) + what_will_finish(run_) +
              " will finish in about " + duration_text(seconds_left) + ", at " +
              clock_text(seconds_left) +
              (run_.peak_memory ? "; peak memory so far " + run_.peak_memory() : "") +
              cost_text(run_, seconds_left) + ".";
  if (seconds_left >= kDay)
    text.warning = formatted(
        "this run will take %.1f days: a GPU, a smaller --image-size or --model-name, more "
        "--ranks, fewer --epochs or a --time-limit shorten it",
        seconds_left / kDay);
  return text;
}

std::optional<ForecastText> Forecast::after_step(const StepRecord& step) {
  if (end_) return std::nullopt;
  if (first_.epoch != step.epoch) {
    first_ = step;
    return std::nullopt;
  }
  const int steps = step.step - first_.step;
  if (steps < kEnoughSteps) return std::nullopt;
  const double step_seconds = (step.elapsed_seconds - first_.elapsed_seconds) / steps;
  return announced(static_cast<double>(run_.images_per_step) / step_seconds,
                   seconds_left(step.epoch, steps_of(step.epoch) - step.step, step_seconds));
}

std::optional<ForecastText> Forecast::after_epoch(const EpochRecord& epoch) {
  valid_seconds_ = epoch.valid_seconds;
  const double step_seconds = epoch.train_seconds / std::max(1, epoch.num_steps);
  const double left = seconds_left(epoch.epoch, 0, step_seconds) - epoch.valid_seconds;
  const double error = end_ ? seconds_since_process_start() + left - *end_ : HUGE_VAL;
  if (std::abs(error) <= std::max(kWorthLogging, kMaxError * left)) return std::nullopt;
  return announced(epoch.train_images_per_second, left);
}

}  // namespace kiln
