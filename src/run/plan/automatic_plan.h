// --auto: whether a run fits the head of its frozen network first and fine-tunes then, and what
// that decides of its options.
#pragma once

#include <string>

#include "config/run_config.h"

namespace kiln {

struct TrainingJob;

// From this many images on, --auto needs to be asked for.
inline constexpr long long kFewImages = 5000;

// Settles `job.is_automatic` and, if it is, what the options leave open in `job.config`; the
// choices tell why. After the datasets are shared and the model is built, before anything uses
// either. A collective. Throws Error kUserError for --auto True where it has no use.
void settle_automatic(TrainingJob& job);

// What a run does that fits a head to features, for the plan: instead of epochs, or with --auto.
std::string feature_plan_text(const OptimizationConfig& config);
std::string automatic_plan_text();

// Nothing was fine-tuned, for want of time: the same model comes of --freeze backbone, which
// repeats the run.
void choose_frozen_alone(TrainingJob& job, const std::string& reason);

}  // namespace kiln
