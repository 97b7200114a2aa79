#include "run/prepare/automatic_plan.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "run/prepare/prepare.h"

namespace kiln {
namespace {

// The learning rate of fine-tuning, which starts with a fitted head: larger steps would destroy the
// head and the backbone.
constexpr double kTuningRate = 0.005;
constexpr const char* kTuningRateText = "0.005";

long long num_images(const TrainingJob& job) {
  return static_cast<long long>(job.inputs.train.samples.size() + job.inputs.valid.samples.size());
}

// A clause that says why --auto True cannot be used; empty if it can.
std::string hindrance(const TrainingJob& job, bool has_weights) {
  if (job.inputs.train.is_stream()) return "the images of a stream cannot be read again";
  if (job.inputs.untrained.spec.pretrained)
    return "the network ends in two linear layers, like one made by `kiln init-model --pretrained "
           "True`";
  if (!has_weights) return "the weights are not pretrained: give some with --weights";
  return "";
}

void take(TrainingJob& job, const std::string& reason) {
  OptimizationConfig& optimization = job.config.optimization;
  job.is_automatic = true;
  choose(job.choices, {"auto", "True", reason});
  if (optimization.automatic.sets_augment) {
    job.config.data.augment = job.inputs.pixels.augment = parse_augment("flip");
    choose(job.choices, {"augment", "flip", "--auto: for fine-tuning", /*has_line=*/true});
  }
  if (optimization.automatic.sets_learning_rate) {
    optimization.learning_rate = kTuningRate;
    choose(job.choices, {"learning-rate", kTuningRateText, "--auto: of fine-tuning"});
  }
  if (!optimization.epochs_given && optimization.steps == 0 && optimization.time_limit_s == 0)
    choose(job.choices, {"epochs", std::to_string(optimization.epochs),
                         "--auto: for fine-tuning, the default", /*has_line=*/true});
}

}  // namespace

void settle_automatic(TrainingJob& job) {
  World& world = job.world;
  const AutoConfig& asked = job.config.optimization.automatic;
  if (asked.choice == AutoChoice::kNo && asked.why_not.empty()) return;
  // Rank 0 has built the network, and may be the only rank that has read the weights.
  const bool has_weights = world.broadcast(!job.inputs.weights_text.empty());
  const std::string why_not = asked.why_not.empty() ? hindrance(job, has_weights) : asked.why_not;
  const std::string count = grouped(num_images(job)) + " images";
  if (asked.choice == AutoChoice::kYes) {
    world.agree([&] {
      if (!why_not.empty())
        throw Error(ErrorCode::kUserError,
                    "--auto True cannot be used, since " + why_not + "; or leave --auto out.");
    });
    return take(job, "as requested");
  }
  if (!has_weights) return;
  if (!why_not.empty()) return choose(job.choices, {"auto", "False", why_not});
  if (num_images(job) >= kFewImages) return choose(job.choices, {"auto", "False", count});
  take(job, count + " and given weights");
}

std::string feature_plan_text(const OptimizationConfig& config) {
  return "one pass through the frozen network, then the last layer is fitted to the " +
         std::string("features, with a penalty chosen by cross-validation") +
         (config.folds > 0 ? formatted("; %d folds", config.folds) : "") +
         formatted("; seed %lld", static_cast<long long>(config.random_seed));
}

std::string automatic_plan_text() {
  return "one pass through the frozen network, and the last layer is fitted to the features (epoch "
         "1); then all layers are fine-tuned, and the result is kept if it is better on the "
         "validation images by McNemar's test at 5 %";
}

void choose_frozen_alone(TrainingJob& job, const std::string& reason) {
  for (const char* unused : {"epochs", "steps", "learning-rate"})
    std::erase_if(job.choices, [&](const Choice& choice) { return choice.option == unused; });
  choose(job.choices, {"auto", "False", reason});
  choose(job.choices, {"freeze", "backbone", reason});
  choose(job.choices, {"augment", "none", "features are computed without augmentation"});
}

}  // namespace kiln
