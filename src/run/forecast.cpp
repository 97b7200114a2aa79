#include "run/forecast.h"

#include <ctime>

#include "base/system.h"
#include "base/text.h"
#include "record/run_summary.h"

namespace kiln {
namespace {

constexpr int kEnoughSteps = 20;
constexpr double kWorthTelling = 60;  // seconds
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

std::string long_run_warning(const RunLength& run, double seconds, int num_epochs) {
  std::string text = formatted("this run will take %.1f days. ", seconds / kDay);
  if (!run.on_gpu) text += "A GPU would be many times faster. ";
  if (run.image_side > 64)
    text += formatted("--image-size %d takes a quarter of the time of %d. ", run.image_side / 2,
                      run.image_side);
  text += "A smaller --model-name, more --ranks";
  if (num_epochs > 1) text += ", fewer --epochs";
  return text + " or --time-limit also shorten it";
}

// "; cost 0.05 so far, about 12.30 in total".
std::string cost_text(const RunLength& run, double seconds_left) {
  if (run.price_per_hour == 0) return "";
  const double so_far = run.seconds_before + seconds_since_process_start();
  return "; cost " + price_text(run.price_per_hour * so_far / kHour) + " so far, about " +
         price_text(run.price_per_hour * (so_far + seconds_left) / kHour) + " in total";
}

}  // namespace

std::optional<ForecastText> Forecast::tell(double images_per_second, double seconds_left,
                                           int num_epochs) {
  has_told_ = true;
  if (seconds_left < kWorthTelling) return std::nullopt;
  ForecastText text;
  text.line = formatted("At %.1f images/s %s will finish in about ", images_per_second,
                        num_epochs == 1 ? "the epoch and its validation"
                                        : formatted("all %d epochs", num_epochs).c_str()) +
              duration_text(seconds_left) + ", at " + clock_text(seconds_left) +
              "; peak memory so far " + bytes_text(peak_memory_bytes()) +
              cost_text(run_, seconds_left) + ".";
  if (seconds_left >= kDay) text.warning = long_run_warning(run_, seconds_left, num_epochs);
  return text;
}

std::optional<ForecastText> Forecast::after_step(const StepRecord& step) {
  if (has_told_) return std::nullopt;
  if (first_.epoch != step.epoch) {
    first_ = step;
    return std::nullopt;
  }
  const int steps = step.step - first_.step;
  if (steps < kEnoughSteps) return std::nullopt;
  const double step_seconds = (step.elapsed_seconds - first_.elapsed_seconds) / steps;
  const double epochs_after = step.num_epochs - step.epoch;
  const double steps_left = step.num_steps - step.step + epochs_after * step.num_steps;
  const double valid_steps =
      static_cast<double>(run_.valid_images) / static_cast<double>(run_.images_per_step);
  const double valid_seconds = valid_steps * step_seconds * kForwardShare;
  return tell(static_cast<double>(run_.images_per_step) / step_seconds,
              steps_left * step_seconds + (epochs_after + 1) * valid_seconds, step.num_epochs);
}

std::optional<ForecastText> Forecast::after_epoch(const EpochRecord& epoch, int num_epochs) {
  if (has_told_) return std::nullopt;
  return tell(epoch.train_images_per_second,
              (num_epochs - epoch.epoch) * (epoch.train_seconds + epoch.valid_seconds), num_epochs);
}

}  // namespace kiln
