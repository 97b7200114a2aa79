// The options of `kiln train` that limit training by steps or by time, in addition to --epochs.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {

std::vector<TrainOption> length_options() {
  const Option time_limit = {
      .name = "time-limit",
      .value_name = "TIME",
      .default_text = "",
      .unit = "",
      .group = kTraining,
      .help =
          "Finish within this time (such as 30min; units s, min, h), including restarts, with the "
          "best model so far. After the first epoch the schedule is set to as many epochs as fit: "
          "at most --epochs, or 90 if that is omitted.",
      .kind = ValueKind::kDuration,
      .minimum = 1,
      .maximum = 1000 * kMillion};
  return {
      {Effect::kResult, time_limit},
      {Effect::kResult,
       integer("steps", "", 1, 1000 * kMillion, "steps", kTraining,
               "Stop after this many optimizer steps, even in the middle of an epoch. The schedule "
               "covers --epochs, or if that is omitted these steps.")},
  };
}

void bind_length(Binder& binder, OptimizationConfig& config) {
  config.epochs = binder.small_integer("epochs");
  config.epochs_given = binder.given("epochs");
  config.steps = binder.integer("steps");
  config.time_limit_s = binder.duration("time-limit");
  if (!config.epochs_given && config.time_limit_s > 0) config.epochs = kMostEpochsInTime;
}

OptionTexts effective_options(const Binder& binder, const OptimizationConfig& config) {
  OptionTexts options = binder.effective_options();
  for (auto& [name, text] : options)
    if (name == "epochs" && !config.epochs_given) text = std::to_string(config.epochs);
  return options;
}

}  // namespace kiln
