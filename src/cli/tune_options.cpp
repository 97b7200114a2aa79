// The options of `kiln tune`, except for the job after its `--`.
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

std::vector<Option> tune_options() {
  return {
      optional_path("output-path", "FILE", "tuned.yaml", kPaths,
                    "Where to write the job with the fastest settings, for `kiln train --config`."),
      integer("steps", "30", 5, 10'000, "steps", kMachine,
              "Steps to measure in each trial, after five warm-up steps."),
      yes_or_no("learning-rates", ValueKind::kSwitch, "False", kTraining,
                "Also try learning rates, from a tenth to ten times the job's, and keep the one "
                "whose loss falls fastest. Needs more --steps, such as 200."),
  };
}

// The job is filled in by parse_tune().
Command bind_tune(Binder& binder) {
  TuneConfig config;
  config.output_path = binder.path("output-path");
  config.steps = binder.small_integer("steps");
  config.learning_rates = binder.boolean("learning-rates");
  return config;
}

}  // namespace

CommandInfo tune_command() {
  return {"tune", "Find the fastest settings for a training job on this machine by short trials.",
          "[options] -- train [options of it]", tune_options(), bind_tune};
}

}  // namespace kiln
