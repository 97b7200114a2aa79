// Plans --auto: whether a run first fits the head of the frozen network and then fine-tunes, and
// which options that sets.
#pragma once

#include <string>

#include "cli/run_config.h"

namespace kiln {

struct TrainingJob;

// With this many images or more, --auto must be requested explicitly.
inline constexpr long long kFewImages = 5000;

// Sets `job.is_automatic` and, if true, the values in `job.config` that the options leave open;
// `job.choices` give the reasons. Call after the datasets are shared and the model is built, before
// either is used. A collective. Throws Error kUserError for --auto True where it cannot be used.
void settle_automatic(TrainingJob& job);

// For the plan: what a run does that fits a head to features, instead of epochs or with --auto.
std::string feature_plan_text(const OptimizationConfig& config);
std::string automatic_plan_text();

// Call if there was no time for fine-tuning: records --freeze backbone as a choice, which
// reproduces the same model.
void choose_frozen_alone(TrainingJob& job, const std::string& reason);

}  // namespace kiln
